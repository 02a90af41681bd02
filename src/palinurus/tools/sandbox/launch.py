"""From a command and its cell to a running child: the one way every child goes.

`prepare_launch` says what has to be started, `start_child` starts it. Each kind of cell is a file beside this one.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO, TypeAlias

import msgspec

from palinurus.core.types.sandbox import SEPARATE, SandboxSpec
from palinurus.tools.sandbox import bubblewrap, children, docker, landlock, seatbelt
from palinurus.tools.sandbox.plan import CONFINED


class ChildLaunch(msgspec.Struct, frozen=True):
    """What is started. `argv` may have a wrapper in front of what was asked for."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    cell: SandboxSpec


def prepare_launch(argv: Sequence[str], cwd: str, env: Mapping[str, str], cell: SandboxSpec) -> ChildLaunch:
    """How to start `argv` inside `cell`. Raises OSError when the cell cannot be made here."""
    if cell.kind == "docker":
        if cell.box is None:
            raise OSError("this session's sandbox has no container")
        return ChildLaunch(
            docker.wrap_docker(argv, cwd, env, cell.box), "/", docker.build_docker_env(os.environ, env), cell
        )
    inside = {**env, "TMPDIR": cell.temporary} if cell.temporary else dict(env)
    if cell.kind == "seatbelt":
        return ChildLaunch(seatbelt.wrap_seatbelt(argv, cell), cwd, inside, cell)
    if cell.kind == "landlock" and not landlock.landlock_version():
        raise OSError("this kernel has no Landlock, which the configuration asks for")
    if cell.kind in CONFINED and not children.has_keepers():
        raise OSError("this machine has nothing of what the configuration asks for")
    if cell.kind == "bubblewrap" and not bubblewrap.find_bubblewrap():
        raise FileNotFoundError(2, "bubblewrap (bwrap) is not installed")
    if cell.kind in SEPARATE:
        inside["TMPDIR"] = "/tmp"
    return ChildLaunch(tuple(argv), cwd, inside, cell)


StartedChild: TypeAlias = "subprocess.Popen[bytes] | children.KeptChild"


def start_child(
    launch: ChildLaunch, *, stdin: int, stdout: int, stderr: int, pool: children.KeeperPool | None = None
) -> StartedChild:
    """The child, running, in a session of its own: with handles, or PIPE or DEVNULL of subprocess. `pool`: where its
    keeper comes from, if not from that of this process.

    Raises OSError; a sandbox the kernel refuses is such an error, never a child outside it."""
    if not children.has_keepers():
        return subprocess.Popen(
            launch.argv,
            cwd=launch.cwd,
            env=launch.env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    with contextlib.ExitStack() as given:
        ends = [_open_end(wanted, number, given) for number, wanted in enumerate((stdin, stdout, stderr))]
        handles = children.ChildHandles._make((*(theirs for theirs, _ in ends), ()))
        if stderr == subprocess.STDOUT:
            handles = handles._replace(stderr=handles.stdout)
        child = start_kept(launch, handles, pool=pool)
    child.stdin, child.stdout, child.stderr = (ours for _, ours in ends)
    child.wait_started()
    return child


def start_kept(
    launch: ChildLaunch,
    handles: children.ChildHandles,
    *,
    session: bool = True,
    pool: children.KeeperPool | None = None,
) -> children.KeptChild:
    """The child, perhaps not yet running: its channel tells. `session`: in a session of its own. The caller keeps its
    handles. Raises OSError."""
    child = (pool or children.get_keeper_pool()).take(launch.cell)
    try:
        child.send_job(launch.argv, launch.cwd, launch.env, handles, session=session)
    except OSError:
        child.close()
        raise
    return child


def _open_end(wanted: int, number: int, given: contextlib.ExitStack) -> tuple[int, IO[bytes] | None]:
    """The child's handle, and ours where there is a pipe. The child's is closed with `given`."""
    if wanted == subprocess.DEVNULL:
        theirs = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        given.callback(os.close, theirs)
        return theirs, None
    if wanted != subprocess.PIPE:
        return wanted, None
    reading, writing = os.pipe()
    theirs, ours = (reading, writing) if number == 0 else (writing, reading)
    given.callback(os.close, theirs)
    return theirs, open(ours, "wb" if number == 0 else "rb", buffering=0)
