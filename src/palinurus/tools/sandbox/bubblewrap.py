"""bubblewrap: a command in namespaces of its own, where only the cell's paths exist. Builds the command line.

Landlock's rules about ports hold as well (`confine` sees to it); with no port at all there is no network either.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from palinurus.core.types.sandbox import SandboxSpec, find_enclosing_folder

_PLACES = "/usr/bin:/usr/local/bin:/bin:/run/current-system/sw/bin"
_OWN = ("/proc", "/dev")  # made new inside
_WHOLE = "/etc"
_SETTINGS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi")


def find_bubblewrap() -> str:
    """Where it is; "" if it is not installed. Never looked for on a PATH that others set."""
    return shutil.which("bwrap", path=_PLACES) or ""


def wrap_bubblewrap(command: Sequence[str], cwd: str, cell: SandboxSpec) -> tuple[str, ...]:
    """The command line that runs `command` inside. Raises OSError when bubblewrap is not there."""
    where = find_bubblewrap()
    if not where:
        raise FileNotFoundError(2, "bubblewrap (bwrap) is not installed")
    line = [where, "--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if cell.connect == ():
        line.append("--unshare-net")
    # no --die-with-parent: for the kernel the parent is the thread that started it, and that one ends at once
    line += ["--cap-drop", "ALL", "--hostname", "cell", "--proc", "/proc", "--dev", "/dev"]
    # to root a new /proc is as writable as the old one, and what is written there the kernel runs outside
    for path in _SETTINGS if os.geteuid() == 0 else ():
        line += ["--ro-bind-try", path, path]
    line += ["--tmpfs", "/dev/shm", "--perms", "1777", "--tmpfs", "/tmp"]
    if cell.temporary:
        line += ["--bind", cell.temporary, "/tmp"]
    for option, path in _binds(cell):
        if os.path.exists(path):
            line += [option, path, path]
    for option, *words in (*_masks(cell.read), *_hide(cell), *_links()):
        line += [option, *words]
    return (*line, "--chdir", cwd, "--", *command)


def _binds(cell: SandboxSpec) -> list[tuple[str, str]]:
    """Outer folders first: a mount hides what was mounted below it before."""
    read = {_WHOLE if find_enclosing_folder(path, (_WHOLE,)) else path for path in cell.read}
    wanted = [("--ro-bind", path) for path in read] + [("--bind", path) for path in cell.write]
    inner = [(option, path) for option, path in wanted if not find_enclosing_folder(path, _OWN)]
    return sorted(inner, key=lambda one: (one[1].count("/"), one[0] == "--bind"))


def _masks(granted: tuple[str, ...]) -> list[tuple[str, ...]]:
    """What lies in a folder that is bound as a whole, and was not granted: each mount costs time, and hiding ten
    things is cheaper than showing two hundred."""
    shown = {path for path in granted if find_enclosing_folder(path, (_WHOLE,))}
    if not shown or _WHOLE in shown:
        return []
    above = {path[:at] for path in shown for at, char in enumerate(path) if char == "/"}
    return _hidden(_WHOLE, shown, above)


def _hidden(folder: str, shown: set[str], above: set[str]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            if entry.path in shown or entry.is_symlink():
                continue
            if entry.path in above:
                found += _hidden(entry.path, shown, above)
            elif entry.is_dir():
                found.append(("--tmpfs", entry.path))
            else:
                found.append(("--ro-bind", "/dev/null", entry.path))
    return found


def _hide(cell: SandboxSpec) -> list[tuple[str, ...]]:
    inner = (path for path in cell.hide if find_enclosing_folder(path, (*cell.read, *cell.write)))
    return [
        ("--tmpfs", path) if os.path.isdir(path) else ("--ro-bind", "/dev/null", path)
        for path in inner
        if os.path.exists(path)
    ]


def _links() -> list[tuple[str, ...]]:
    """/bin and /lib are links on most systems."""
    with os.scandir("/") as entries:
        return [("--symlink", os.readlink(entry.path), entry.path) for entry in entries if entry.is_symlink()]
