"""Resource limits of a command: a shell sets them on itself and then becomes the command.

They belong to a process, not to a thread, so they can only be set on the way; set from outside, the command would
run for a moment without them. The shell costs less than a millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence

from palinurus.core.types.cell import ProcessLimits

_BLOCK = 512  # bytes; the unit of `ulimit -f` in every sh


def wrap_limits(argv: Sequence[str], limits: ProcessLimits) -> tuple[str, ...]:
    """The command line that runs `argv` under the limits. One the system does not take is left as it is."""
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
