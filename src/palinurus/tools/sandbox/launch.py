"""From a command and its cell to a running child: the one way every child goes.

`prepare_launch` says what has to be started, `start_child` starts it. Each kind of cell is a file beside this one.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from palinurus.core.types.sandbox import ProcessLimits, SandboxSpec
from palinurus.tools.sandbox import bubblewrap, confine, docker, landlock

_BLOCK = 512  # bytes; the unit of `ulimit -f` in every sh


def wrap_limits(argv: Sequence[str], limits: ProcessLimits) -> tuple[str, ...]:
    """The command line that runs `argv` under the limits: a shell sets them on itself and becomes the command, in less
    than a millisecond. Set from outside, it would run a moment without them. One the system refuses is left out."""
    wanted = (
        ("-n", limits.files),
        ("-f", limits.file_bytes // _BLOCK),
        ("-v", limits.memory_bytes >> 10),
        ("-t", limits.cpu_seconds),
    )
    lines = ["ulimit -c 0", *(f"ulimit {option} {value} 2>/dev/null" for option, value in wanted if value)]
    if limits.processes:  # the letter differs from shell to shell
        lines.append(f"ulimit -u {limits.processes} 2>/dev/null || ulimit -p {limits.processes} 2>/dev/null")
    return ("/bin/sh", "-c", "\n".join([*lines, 'exec "$@"']), "sh", *argv)


class ChildLaunch(NamedTuple):
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
    if cell.kind == "bubblewrap":
        line = bubblewrap.wrap_bubblewrap(argv, cwd, cell)
        return ChildLaunch(wrap_limits(line, cell.limits), "/", {**inside, "TMPDIR": "/tmp"}, cell)
    if cell.kind == "landlock":
        if not landlock.landlock_version():
            raise OSError("this kernel has no Landlock, which the configuration asks for")
        return ChildLaunch(wrap_limits(argv, cell.limits), cwd, inside, cell)
    return ChildLaunch(tuple(argv), cwd, inside, cell)


def start_child(launch: ChildLaunch, **options: Any) -> subprocess.Popen[bytes]:
    """The running child. `options` (stdin, stdout, pass_fds, start_new_session …) go to Popen as they are.

    Raises OSError; a cell the kernel refuses is such an error, never a child outside it.
    """

    def popen() -> subprocess.Popen[bytes]:
        return subprocess.Popen(launch.argv, cwd=launch.cwd, env=launch.env, **options)

    if launch.cell.kind in ("landlock", "bubblewrap"):
        return confine.start_confined(launch.cell, popen)
    return popen()
