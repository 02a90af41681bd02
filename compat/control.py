"""The real Control UI, served by a small static server, in the machine's Chromium. The page's steps are control.mjs."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import threading
from typing import Any
from urllib.parse import quote

from place import Place
from tally import Tally

from palinurus.testing.home import TOKEN


class _Files(http.server.SimpleHTTPRequestHandler):
    """The UI's files; a path that is no file is the page itself."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.endswith("/control-ui-config.json"):
            self._answer(b'{"basePath": "", "assistantName": "Pal", "assistantAgentId": "main"}')
            return
        if "." not in os.path.basename(path):
            self.path = "/index.html"
        super().do_GET()

    def _answer(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the driver prints what matters."""


def serve(place: Place) -> http.server.ThreadingHTTPServer:
    """The files of the installed package, on the port that our gateway trusts."""
    files = os.path.join(place.package, "node_modules", "openclaw", "dist", "control-ui")
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", place.page),
        lambda *args: _Files(*args, directory=files),  # type: ignore[arg-type]
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def drive(place: Place, tally: Tally) -> None:
    """Chat, tools, abort, levels, approvals, sessions and the tabs."""
    server = serve(place)
    try:
        _browse(place, tally)
    finally:
        server.shutdown()


def _browse(place: Place, tally: Tally) -> None:
    browser = shutil.which("chromium")
    assert browser is not None  # the row's need
    base = f"http://127.0.0.1:{place.page}"
    address = f"{base}/chat?session=main&gatewayUrl={quote(place.url, safe='')}#token={TOKEN}"
    library = os.path.join(place.package, "node_modules", "playwright-core")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "control.mjs")
    command = [place.node, script, library, browser, address, place.shots, TOKEN, place.version]
    done = subprocess.run(command, env=place.environ("browser"), capture_output=True, text=True, timeout=900)
    for line in done.stdout.splitlines():
        row = json.loads(line)
        if "name" in row:
            tally.note(row["name"], row["ok"], row["said"])
        elif row.get("failed"):
            print("  refused methods:\n" + "\n".join(f"      {text[:200]}" for text in dict.fromkeys(row["failed"])))
    if done.returncode:
        tally.note("control: the driver ran to its end", False, done.stderr)
