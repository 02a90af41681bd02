"""Other people's MCP clients against our server, over HTTP (`/mcp`) and standard input (`pal mcp serve`): the
inspector's command line from npm, and the newest SDKs: Python's (`mcpuser.py`) and that of npm (`mcpuser.mjs`), whose
server our client calls, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import place
from tally import Tally

from palinurus.testing.home import TOKEN, make_home

INSPECTOR, SDK, NPM = "2.12.0", "2.3.0", "2.4.0"
HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 180
# What our client prints of each tool of the npm SDK's server: revision, name, whether it failed, what came.
NPM_ANSWERS = {
    "a call": r"2026-07-28 suite__add False .*sum 8",
    "structured": r"suite__shape False .*a square",
    "a failure is a result": r"suite__fail True .*on purpose",
    "a picture": r"suite__binary False .*image/png",
    "resources": r"suite__resource False .*note://one",
    "prompts": r"suite__prompt False .*greet",
}


@contextmanager
def start_gateway() -> Iterator[tuple[str, list[str]]]:
    """Where it is, and the command that serves the same by standard input."""
    root, port = tempfile.mkdtemp(prefix="mcpusers-"), place.free_port()
    print(f"compat: MCP clients; logs in {root}", flush=True)
    home = make_home(
        root, {"gateway": {"port": port}, "agents": {"defaults": {"model": "builtin/demo"}}}, {"note.txt": "inside"}
    )
    pal = [sys.executable, "-m", "palinurus", "--home", home]
    gateway = place.spawn([*pal, "gateway", "--port", str(port)], root, "gateway")
    try:
        place.listens(port)
        yield f"http://127.0.0.1:{port}/mcp", [*pal, "mcp", "serve"]
    finally:
        gateway.terminate()
        gateway.wait(15)


def drive_inspector(cache: str, tally: Tally) -> None:
    """Lists, calls, errors."""
    folder = os.path.join(cache, f"mcp-inspector-{INSPECTOR}")
    node = os.path.join(folder, "node_modules", "node", "bin", "node")
    entry = os.path.join(
        "node_modules", "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js"
    )
    names = f"@modelcontextprotocol/inspector@{INSPECTOR}", f"node@{place.NODE}"
    found = place.install_npm(folder, *names, entry=entry)
    environ = {**os.environ, "PATH": os.path.dirname(node) + os.pathsep + os.environ.get("PATH", "")}
    with start_gateway() as (url, serve):
        ways = {
            "http": [url, "--transport", "http", "--header", f"Authorization: Bearer {TOKEN}"],
            "stdio": serve,
        }
        for way, target in ways.items():

            def ask(*words: str, way: str = way, target: list[str] = target) -> str:
                line = [node, found, "--cli", *target, "--method", *words]
                done = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=PATIENCE)
                return done.stdout + done.stderr

            tally.has(f"inspector, {way}: tools/list", ask("tools/list"), '"read"', '"sessions_send"')
            called = ask("tools/call", "--tool-name", "read", "--tool-arg", "path=note.txt")
            tally.has(f"inspector, {way}: tools/call", called, "inside")
            tally.has(
                f"inspector, {way}: unknown tool", ask("tools/call", "--tool-name", "exec"), "[Nn]ot (available|found)"
            )
            tally.has(f"inspector, {way}: resources", ask("resources/list"), '"resources"')
            tally.has(f"inspector, {way}: templates", ask("resources/templates/list"), r"session://\{key\}")
            tally.has(f"inspector, {way}: prompts", ask("prompts/list"), '"prompts"')


def drive_sdk(cache: str, tally: Tally) -> None:
    """A whole visit, both ways."""
    python = os.path.join(place.install_pip(os.path.join(cache, f"mcp-{SDK}"), f"mcp=={SDK}"), "python")
    _visit([python, os.path.join(HERE, "mcpuser.py")], tally)


def _visit(client: list[str], tally: Tally) -> None:
    with start_gateway() as (url, serve):
        for way, target in (("http", [url, TOKEN]), ("stdio", serve)):
            environ = {k: v for k, v in os.environ.items() if not k.startswith(("PALINURUS_", "PYTHON"))}
            line = [*client, way, *target]
            done = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=PATIENCE)
            for said in done.stdout.splitlines():
                row = json.loads(said)
                tally.note(f"mcp sdk, {way}: {row['name']}", row["ok"], row["said"])
            tally.note(f"mcp sdk, {way}: ran to its end", done.returncode == 0, done.stderr[-3000:])


def drive_npm(cache: str, tally: Tally) -> None:
    """Its client's visit, both ways and with both revisions; then our client at its server."""
    folder = os.path.join(cache, f"mcp-npm-{NPM}")
    names = [f"@modelcontextprotocol/{one}@{NPM}" for one in ("client", "server")]
    place.install_npm(folder, *names, "zod@4", f"node@{place.NODE}", entry=os.path.join("node_modules", "zod"))
    node = os.path.join(folder, "node_modules", "node", "bin", "node")
    _visit([node, os.path.join(HERE, "mcpuser.mjs"), folder], tally)
    command = [node, os.path.join(HERE, "mcpuser.mjs"), folder, "serve"]
    line = [sys.executable, os.path.join(HERE, "mcpclient.py"), "--", *command]
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE)
    for name, wanted in NPM_ANSWERS.items():
        tally.has(f"our client at its server: {name}", done.stdout, wanted)
    tally.note("our client at its server: to its end", done.returncode == 0, done.stdout + done.stderr)
