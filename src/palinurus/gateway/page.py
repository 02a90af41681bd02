"""The page at /: says that the gateway runs and how to talk to it. Static; the web chat replaces it later."""

from __future__ import annotations

POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

HTML = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Palinurus</title>
<style>
body{font:16px/1.6 system-ui,sans-serif;max-width:42rem;margin:4rem auto;padding:0 1.25rem;
color:#222;background:#fcfcfa}
code,pre{font:14px/1.5 ui-monospace,monospace;background:#f0efea;border-radius:4px}
code{padding:.1em .35em}pre{padding:.9em 1em;overflow:auto}h1{font-weight:600}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}code,pre{background:#262626}}
</style>
<h1>Palinurus is running</h1>
<p>Chat from the terminal:</p>
<pre>pal chat
pal agent -m "what is in my workspace?"</pre>
<p>Or from any OpenAI client, with this address as base URL (add <code>/v1</code>), the model
<code>openclaw</code>, and the token from <code>gateway.token</code> in the state directory as API key.</p>
<p><code>pal status</code> shows what it is doing, <code>pal doctor</code> what is wrong.</p>
</html>
"""
