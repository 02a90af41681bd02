"""bubblewrap: namespaces where only the cell's paths exist, with a keeper in them that takes commands. Builds its
command line.

Landlock's rules and the filter hold as well (`keeper` sees to it); with no port at all there is no network either.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import cache

from palinurus.tools.sandbox.layout import MountStep, list_mounts
from palinurus.tools.sandbox.plan import KeeperPlan

_PLACES = "/usr/bin:/usr/local/bin:/bin:/run/current-system/sw/bin"
_SETTINGS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi")


def find_bubblewrap() -> str:
    """Where it is; "" if it is not installed. Never looked for on a PATH that others set."""
    return shutil.which("bwrap", path=_PLACES) or ""


def wrap_bubblewrap(command: Sequence[str], cwd: str, cell: KeeperPlan) -> tuple[str, ...]:
    """The command line that runs `command` inside, as the first process of its namespace: everything there ends with
    it. Raises OSError when bubblewrap is not there."""
    where = find_bubblewrap()
    if not where:
        raise FileNotFoundError(2, "bubblewrap (bwrap) is not installed")
    # no namespaces in namespaces: they open parts of the kernel that only root can reach
    user = ["--unshare-user", "--disable-userns"] if os.geteuid() and can_close_namespaces() else ["--unshare-user-try"]
    line = [where, *user, "--unshare-pid", "--as-pid-1", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if cell.connect == ():
        line.append("--unshare-net")
    line += ["--die-with-parent", "--cap-drop", "ALL", "--hostname", "cell", "--proc", "/proc", "--dev", "/dev"]
    # to root a new /proc is as writable as the old one, and what is written there the kernel runs outside
    for path in _SETTINGS if os.geteuid() == 0 else ():
        line += ["--ro-bind-try", path, path]
    line += ["--tmpfs", "/dev/shm", "--perms", "1777", "--tmpfs", "/tmp"]
    for step in list_mounts(cell):
        line += _OPTIONS[step.how](step)
    return (*line, "--chdir", cwd, "--", *command)


@cache
def can_close_namespaces() -> bool:
    """Can it keep commands from making namespaces? From 0.8 on."""
    try:
        told = subprocess.run(
            [find_bubblewrap() or "bwrap", "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=5,
            env={},
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    words = told.stdout.split()
    return len(words) > 1 and tuple(int(n) for n in words[1].split(b".")[:2] if n.isdigit()) >= (0, 8)


_OPTIONS: dict[str, Callable[[MountStep], list[str]]] = {
    "read": lambda step: ["--ro-bind", step.source, step.target],
    "write": lambda step: ["--bind", step.source, step.target],
    "empty": lambda step: ["--tmpfs", step.target],
    "link": lambda step: ["--symlink", step.source, step.target],
}
