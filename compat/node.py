"""OpenClaw's own node host as a node of our gateway: it waits for a yes, runs a command, and is put out."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from place import Place
from tally import Tally, until

NAME = "compat-node"


def drive(place: Place, tally: Tally) -> None:
    """One after the other; the node is ended at the end."""
    environ = place.environ("node")
    target = ("--host", "127.0.0.1", "--port", str(place.port), "--display-name", NAME)
    log = os.path.join(place.shots, "node.log")
    with open(log, "ab") as out:
        node = subprocess.Popen(
            [*place.program, "node", "run", *target], env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        waits = until(lambda: _pal(place, "nodes")[1], NAME, seconds=90)
        tally.has("node: asks to be paired", waits, rf"waits  {NAME}", r"system\.run")
        told = _pal(place, "nodes", "approve", NAME)[1]
        tally.has("node: approved", told, rf"paired: {NAME}", r"system\.run")
        code, said = _pal(place, "nodes", "run", NAME, "--", "echo land ho; exit 3")
        tally.note("node: system.run", code == 3 and said.strip() == "land ho", f"exit {code}\n{said}\n{_read(log)}")
        _, found = _pal(place, "nodes", "invoke", NAME, "system.which", "--params", json.dumps({"bins": ["sh"]}))
        tally.has("node: system.which", found, r'"sh": "/')
        tally.has("node: OpenClaw's list", place.openclaw("nodes", "status")[1], "Paired: 1 · Connected: 1")
        tally.has("node: revoked", _pal(place, "nodes", "revoke", NAME)[1], r"revoked")
        tally.has("node: stays out", until(lambda: _read(log), r"pairing required", seconds=60), r"pairing required")
    finally:
        node.terminate()
        node.wait(30)


def _pal(place: Place, *args: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "palinurus", "--home", place.home, *args]
    done = subprocess.run(command, capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as handle:
        return handle.read()
