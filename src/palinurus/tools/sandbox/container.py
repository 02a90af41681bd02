"""The process that stands before a command in a container: sees that the container runs, then becomes `docker exec`.

A process of its own because an image may have to be fetched first, which takes minutes; ending it ends the wait.
Standard library only, started without site packages.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

_FORMAT = '{{index .Config.Labels "palinurus.box"}} {{.State.Running}}'


def main() -> None:
    """Do the job in the second argument."""
    job = json.loads(sys.argv[2])
    problem = ensure_container(job)
    if problem:
        sys.stderr.write(f"The sandbox could not be started: {problem}\n")
        sys.exit(125)
    docker, verb, *rest = job["enter"]
    os.execv(docker, [docker, verb, *(["--tty"] if os.isatty(0) else []), *rest])


def ensure_container(job: dict[str, Any]) -> str:
    """Have the container running as it should be; "" or what went wrong. Started twice at once, one wins."""
    docker, name = job["docker"], job["name"]
    code, told = _told([docker, "inspect", "--type", "container", "--format", _FORMAT, name])
    mark, _, running = told.strip().partition(" ")
    new = code != 0
    if not new and mark != job["mark"]:
        code, told = _told([docker, "rm", "--force", name])
        if code:
            return told
        new = True
    if new:
        code, told = _told(job["create"])
        if code and "already in use" not in told:
            return told
        new = not code
    if new or running != "true":
        code, told = _told([docker, "start", name])
        if code:
            return told
    if new and job["setup"]:
        code, told = _told(job["setup"])
        if code:
            _told([docker, "rm", "--force", name])
            return f"sandbox.docker.setupCommand failed: {told}"
    return ""


def _told(argv: list[str]) -> tuple[int, str]:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    text = (done.stdout if done.returncode == 0 else done.stderr or done.stdout).decode("utf-8", "replace")
    failed = f"docker ended with {done.returncode}" if done.returncode else ""
    return done.returncode, text.strip() or failed
