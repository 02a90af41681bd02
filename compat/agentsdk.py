"""Claude's Agent SDK from the package index, unmodified, with `pal` as its command line: `query`, `ClaudeSDKClient`,
tools, `can_use_tool`, interrupt, resume; without a gateway and through one (docs/headless.md). `sdkclient.py`
uses it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile

import place
from tally import Tally

from palinurus.testing.home import make_home

SDK, VERSION = "claude-agent-sdk", "0.2.183"
PATIENCE = 300


def drive(cache: str, tally: Tally) -> None:
    """Both ways."""
    # from source: the wheels bring a whole Claude Code along, which is not needed here
    options = ("--no-binary", SDK, f"{SDK}=={VERSION}")
    python = os.path.join(place.install_pip(os.path.join(cache, f"{SDK}-{VERSION}"), *options), "python")
    root = tempfile.mkdtemp(prefix="agentsdk-")
    print(f"compat: {SDK} {VERSION} with pal as its command line; logs in {root}", flush=True)
    mock, port = place.free_port(), place.free_port()
    model = place.spawn([sys.executable, "-m", "palinurus.testing.server", "--port", str(mock)], root, "mock")
    running = [model]
    try:
        place.listens(mock)
        home = make_home(
            root, {"gateway": {"port": port}}, {"notes.txt": "remember the milk\n"}, url=f"http://127.0.0.1:{mock}/v1"
        )
        _play(python, _wrap(root, home), root, "alone", tally)
        pal = [sys.executable, "-m", "palinurus", "--home", home, "gateway", "--port", str(port)]
        running.append(place.spawn(pal, root, "gateway"))
        place.listens(port)
        _play(python, _wrap(root, home), root, "through a gateway", tally)
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(15)


def _wrap(root: str, home: str) -> str:
    """`cli_path`: one file that is started with the SDK's own arguments."""
    path = os.path.join(root, "pal")
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(f'#!/bin/sh\nexec "{sys.executable}" -m palinurus --home "{home}" "$@"\n')
    os.chmod(path, stat.S_IRWXU)
    return path


def _play(python: str, cli: str, root: str, way: str, tally: Tally) -> None:
    client = os.path.join(os.path.dirname(__file__), "sdkclient.py")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PALINURUS_", "PYTHON"))}
    environ["CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK"] = "1"
    try:
        done = subprocess.run([python, client, cli], cwd=root, env=environ, capture_output=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired as exc:
        tally.note(f"agent sdk, {way}", False, (exc.stdout or b"").decode(errors="replace"))
        return
    for line in done.stdout.decode(errors="replace").splitlines():
        row = json.loads(line)
        tally.note(f"agent sdk, {way}: {row['name']}", row["ok"], row["said"])
    tally.note(f"agent sdk, {way}: ends well", done.returncode == 0, done.stderr.decode(errors="replace"))
