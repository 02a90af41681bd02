"""The MCP conformance suite from the npm registry, in both directions: our server (`/mcp` of a gateway that has a
plugin with what the suite asks for) and our client (`mcpclient.py`)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile

import place
from tally import Tally

from palinurus.testing.home import make_home

VERSION = "0.1.16"
PACKAGE = "@modelcontextprotocol/conformance"
HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 600
# Scenarios of extensions, which the suite itself keeps out of its core, and what we do instead.
LIMITS = {
    "auth/client-credentials-jwt": "an extension: machines without a person; `headers.Authorization` is for those",
    "auth/client-credentials-basic": "an extension: machines without a person; `headers.Authorization` is for those",
    "auth/cross-app-access-complete-flow": "an extension: sign-in by a company's identity provider",
}


def install(cache: str) -> tuple[str, str]:
    """Node and the suite. Raises NotInstalled."""
    folder = os.path.join(cache, f"mcp-conformance-{VERSION}")
    entry = os.path.join("node_modules", *PACKAGE.split("/"), "dist", "index.js")
    found = place.install_npm(folder, f"{PACKAGE}@{VERSION}", f"node@{place.NODE}", entry=entry)
    return os.path.join(folder, "node_modules", "node", "bin", "node"), found


def drive_server(cache: str, tally: Tally) -> None:
    """Every server scenario."""
    node, suite = install(cache)
    root, port = tempfile.mkdtemp(prefix="conformance-"), place.free_port()
    # the suite cannot send a credential, and looks whether foreign pages are kept out
    config = {
        "gateway": {"port": port, "auth": {"mode": "none"}},
        "plugins": {"entries": {"conformance": {"enabled": True}}},
    }
    home = make_home(root, config, {})
    shutil.copytree(os.path.join(HERE, "mcpplugin"), os.path.join(home, "plugins", "conformance"))
    pal = [sys.executable, "-m", "palinurus", "--home", home, "gateway", "--port", str(port)]
    gateway = place.spawn(pal, root, "gateway")
    try:
        place.listens(port)
        line = [node, suite, "server", "--url", f"http://127.0.0.1:{port}/mcp", "--suite", "all"]
        done = subprocess.run(line, cwd=root, capture_output=True, text=True, timeout=PATIENCE)
    finally:
        gateway.terminate()
        gateway.wait(15)
    rows = re.findall(r"^(\S) (\S+): (\d+) passed, (\d+) failed", done.stdout, re.MULTILINE)
    for _, name, passed, failed in rows:
        tally.note(f"server: {name} ({passed} checks)", failed == "0" and passed != "0", done.stdout)
    tally.note("server: the suite ran", bool(rows), done.stdout + done.stderr)


def drive_client(cache: str, tally: Tally) -> None:
    """Every client scenario."""
    node, suite = install(cache)
    root = tempfile.mkdtemp(prefix="conformance-")
    told = subprocess.run([node, suite, "list", "--client"], capture_output=True, text=True, timeout=60).stdout
    names = re.findall(r"^\s+- (\S+)", told.partition("Client scenarios")[2] or told, re.MULTILINE)
    command = f"{sys.executable} {os.path.join(HERE, 'mcpclient.py')}"
    for name in names:
        line = [node, suite, "client", "--command", command, "--scenario", name, "--timeout", "180000"]
        done = subprocess.run(line, cwd=root, capture_output=True, text=True, timeout=PATIENCE)
        said = done.stdout + done.stderr
        tally.note(f"client: {name}", done.returncode == 0, said, limit=LIMITS.get(name, ""))
    tally.note("client: the suite ran", bool(names), told)
