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

VERSION = "0.2.0-alpha.12"  # has every scenario of 0.1.16, and those of the newest revision
PACKAGE = "@modelcontextprotocol/conformance"
HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 600
REVISIONS = ("2025-11-25", "2026-07-28")  # a scenario of both is run with each: it checks other things
# Beginnings of the names of scenarios of extensions, which the suite itself asks of nobody, and what we do instead.
LIMITS = {
    "tasks-status-notifications": "the suite checks nothing yet: it waits to be rewritten for subscriptions/listen",
}


def find_limit(scenario: str) -> str:
    """What explains that it fails; "": nothing may."""
    return next((words for begun, words in LIMITS.items() if scenario.startswith(begun)), "")


def install(cache: str) -> tuple[str, str]:
    """Node and the suite. Raises NotInstalled."""
    folder = os.path.join(cache, f"mcp-conformance-{VERSION}")
    entry = os.path.join("node_modules", *PACKAGE.split("/"), "dist", "index.js")
    found = place.install_npm(folder, f"{PACKAGE}@{VERSION}", f"node@{place.NODE}", entry=entry)
    return os.path.join(folder, "node_modules", "node", "bin", "node"), found


def list_scenarios(node: str, suite: str, side: str) -> list[tuple[str, str]]:
    """Their names, and the revisions that they are of (or "extension"). Raises ValueError: the suite says nothing."""
    told = subprocess.run([node, suite, "list", f"--{side}"], capture_output=True, text=True, timeout=60).stdout
    if not (found := re.findall(r"^\s+- (\S+) \[(.*)\]", told, re.MULTILINE)):
        raise ValueError(f"the suite lists no scenarios: {told}")
    return found


def read_counts(said: str) -> tuple[str, str]:
    """How many checks of one scenario passed and failed; ("0", "1"): it did not get so far."""
    found = re.search(r"^Passed: (\d+)/\d+, (\d+) failed", said, re.MULTILINE)
    return (found[1], found[2]) if found else ("0", "1")


def drive_server(cache: str, tally: Tally) -> None:
    """Every server scenario."""
    node, suite = install(cache)
    root, port = tempfile.mkdtemp(prefix="conformance-"), place.free_port()
    extensions = [name for name, spoken in list_scenarios(node, suite, "server") if spoken == "extension"]
    sets = [("--suite", "all", "--spec-version", one) for one in REVISIONS]
    sets += [("--scenario", name) for name in extensions]
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
        for words in sets:
            line = [node, suite, "server", "--url", f"http://127.0.0.1:{port}/mcp", *words]
            done = subprocess.run(line, cwd=root, capture_output=True, text=True, timeout=PATIENCE)
            rows = re.findall(r"^\S (\S+): (\d+) passed, (\d+) failed", done.stdout, re.MULTILINE)
            for name, passed, failed in rows or [(words[-1], *read_counts(done.stdout))]:
                good = failed == "0" and passed != "0"
                tally.note(f"server: {name} ({words[-1]}, {passed} checks)", good, done.stdout, limit=find_limit(name))
    finally:
        gateway.terminate()
        gateway.wait(15)


def drive_client(cache: str, tally: Tally) -> None:
    """Every client scenario."""
    node, suite = install(cache)
    root = tempfile.mkdtemp(prefix="conformance-")
    listed = list_scenarios(node, suite, "client")
    runs = [(name, one) for name, spoken in listed for one in REVISIONS if one in spoken]
    runs += [(name, "") for name, spoken in listed if not any(one in spoken for one in REVISIONS)]
    command = f"{sys.executable} {os.path.join(HERE, 'mcpclient.py')}"
    for name, revision in runs:
        line = [node, suite, "client", "--command", command, "--scenario", name, "--timeout", "180000"]
        line += ["--spec-version", revision] if revision else []
        done = subprocess.run(line, cwd=root, capture_output=True, text=True, timeout=PATIENCE)
        said = done.stdout + done.stderr
        good = done.returncode == 0 and read_counts(said)[0] != "0"
        tally.note(f"client: {name} {revision}".rstrip(), good, said, limit=find_limit(name))
