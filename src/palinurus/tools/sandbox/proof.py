"""Runs the trials of `trial` inside a cell and says what held. Plants what they try to reach, and removes it.

The gateway's port, the secret and the sockets are real ones, made here: a refusal must come from the cell.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from palinurus.core.types.sandbox import EPHEMERAL_PORTS, SEPARATE, SandboxSpec
from palinurus.tools.sandbox.launch import prepare_launch, start_child
from palinurus.tools.sandbox.system import make_own_command

SECONDS = 60.0


class TrialResult(NamedTuple):
    """`held` None: there was nothing to try. `how`: the error a refusal came with, or what happened instead."""

    name: str
    wanted: str  # "refused" or "works"
    held: bool | None
    how: str


class TrialSite(NamedTuple):
    """Where the trials happen. `port` is the gateway's, 0 if it is not known; `home` the state directory."""

    home: str
    user: str
    workspace: str
    port: int


def run_trials(cell: SandboxSpec, site: TrialSite, env: Mapping[str, str]) -> list[TrialResult]:
    """What happened to each trial. Raises OSError when nothing could be started in the cell."""
    with ExitStack() as stack:
        facts = _planted(cell, site, stack)
        line = make_own_command("palinurus.tools.sandbox.trial", json.dumps(facts))
        process = start_child(
            prepare_launch(line, site.workspace, env, cell),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate(timeout=SECONDS)
    found = [json.loads(raw) for raw in out.splitlines() if raw.startswith(b"{")]
    if not found:
        raise OSError(f"the trials could not be run: {err.decode('utf-8', 'replace').strip()[-500:]}")
    return [TrialResult(one["name"], one["wanted"], one["held"], one["how"]) for one in found]


def _planted(cell: SandboxSpec, site: TrialSite, stack: ExitStack) -> dict[str, Any]:
    outside = stack.enter_context(tempfile.TemporaryDirectory(prefix="palinurus-proof-"))
    secret = os.path.join(outside, "secret")
    victim = os.path.join(outside, "victim")  # which one trial removes
    own = os.path.join(outside, "own")
    for path in (secret, victim, own):
        Path(path).write_text(secrets.token_hex(8), encoding="ascii")
    stack.callback(_restore, "/etc/passwd", os.stat("/etc/passwd"))
    name = f"palinurus-{secrets.token_hex(8)}"
    bus = os.path.join(outside, "bus")
    for address in (bus, "\0" + name):
        listening = stack.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(address)
        listening.listen()
    return {
        "home": site.user,
        "hidden": {"home": _hidden(site.user, cell), "state": _hidden(site.home, cell)},
        "ssh": _present(os.path.join(site.user, ".ssh")),
        "state": site.home,
        "config": _present(os.path.join(site.home, "palinurus.json")),
        "token": _present(os.path.join(site.home, "gateway.token")),
        "shadow": _present("/etc/shadow"),
        "secret": secret,
        "victim": victim,
        "outside": outside,
        "system": "/etc/passwd" if os.geteuid() == 0 else own,  # in sight, and ours to change
        "private": _plant_private(stack),
        "free": _find_free(cell),
        "inside": cell.temporary or site.workspace,
        "workspace": site.workspace,
        "gateway": os.getpid(),
        "canary": name,
        "namespaces": cell.kind in SEPARATE,
        "port": _listening(site.port, stack),
        "closed": _listening(0, stack, cell),
        "socket": "" if cell.unix and cell.kind not in SEPARATE else bus,
        "abstract": name,
        "terminal": _terminal(stack),
        "servers": cell.connect is None or EPHEMERAL_PORTS in cell.connect,
    }


def _plant_private(stack: ExitStack) -> str:
    """As root: a file below /opt or /usr that only its owner may read, as programs keep their keys there."""
    if os.geteuid() != 0:
        return ""
    for folder in ("/opt", "/usr/local"):
        try:
            handle, path = tempfile.mkstemp(prefix="palinurus-proof-", dir=folder)  # for its owner only
        except OSError:
            continue
        stack.callback(os.unlink, path)
        os.write(handle, b"private")
        os.close(handle)
        return path
    return ""


def _restore(path: str, before: os.stat_result) -> None:
    """What a trial changed that should have been refused."""
    now = os.stat(path)
    if os.geteuid() == 0 and (now.st_mode, now.st_mtime_ns) != (before.st_mode, before.st_mtime_ns):
        os.chmod(path, before.st_mode & 0o7777)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with suppress(OSError):
        os.removexattr(path, "user.trial")


def _find_free(cell: SandboxSpec) -> int:
    return next((port for port in range(21_001, 21_900, 7) if not _open(port, cell)), 0)


def _terminal(stack: ExitStack) -> str:
    """A terminal of the same user, outside the cell."""
    for handle in (pair := os.openpty()):
        stack.callback(os.close, handle)
    return os.ttyname(pair[1])


def _hidden(folder: str, cell: SandboxSpec) -> list[str]:
    """Names in a folder that the cell opens nothing of."""
    opened = [path for path in (*cell.read, *cell.write) if path.startswith(folder + "/")]
    first = {path[len(folder) + 1 :].split("/", 1)[0] for path in opened}
    try:
        return [name for name in os.listdir(folder) if name not in first]
    except OSError:
        return []


def _present(path: str) -> str:
    return path if os.path.exists(path) else ""


def _listening(port: int, stack: ExitStack, cell: SandboxSpec | None = None) -> int:
    """A port on which somebody listens. With a cell: one that is not among the cell's."""
    wanted = [port] if cell is None else [p for p in range(20_001, 20_900, 7) if not _open(p, cell)]
    for one in wanted:
        made = socket.socket()
        try:
            made.bind(("127.0.0.1", one))
        except OSError:
            made.close()
            continue  # the gateway itself listens there, or somebody else
        stack.enter_context(made)
        made.listen()
        return int(made.getsockname()[1])
    return wanted[0] if wanted else port


def _open(port: int, cell: SandboxSpec) -> bool:
    return cell.connect is None or any(first <= port <= last for first, last in cell.connect)
