"""What a contained command finds where: the mounts of its root, outer ones first. Reads folders; mounts nothing.

`mounts` makes them in a namespace of ours, `bubblewrap` writes them as a command line.
"""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

from palinurus.core.folders import find_enclosing_folder
from palinurus.tools.sandbox.plan import KeeperPlan

OWN_FOLDERS = ("/proc", "/dev")  # made new inside
MAX_PIECES = 2000
_WHOLE = "/etc"


class MountStep(NamedTuple):
    """`source` of the host at `target`, for reading or writing; an empty folder; a link to `source`."""

    how: Literal["read", "write", "empty", "link"]
    source: str
    target: str


def list_mounts(cell: KeeperPlan) -> list[MountStep]:
    """The steps, in the order in which they have to be taken."""
    first = [MountStep("write", cell.temporary, "/tmp")] if cell.temporary else [MountStep("empty", "", "/tmp")]
    return [*first, *_binds(cell), *_masks(cell.read), *_hide(cell), *_links()]


def _binds(cell: KeeperPlan) -> list[MountStep]:
    """Outer folders first: a mount hides what was mounted below it before."""
    read = {_WHOLE if find_enclosing_folder(path, (_WHOLE,)) else path for path in cell.read}
    wanted = [MountStep("read", path, path) for path in read] + [MountStep("write", path, path) for path in cell.write]
    inner = [one for one in wanted if not find_enclosing_folder(one.target, OWN_FOLDERS) and os.path.exists(one.source)]
    ordered = sorted(inner, key=lambda one: (one.target.count("/"), one.how == "write"))
    outer: dict[str, str] = {}  # what lies in a folder that is mounted already needs no mount of its own
    kept = []
    for one in ordered:
        above = find_enclosing_folder(os.path.dirname(one.target), tuple(outer))
        if one.how == "write" or not above or any(outer[path] == "write" for path in outer if _is_above(path, one)):
            outer[one.target] = one.how
            kept.append(one)
    return kept


def _is_above(path: str, step: MountStep) -> bool:
    return step.target.startswith(path.rstrip("/") + "/")


def _masks(granted: tuple[str, ...]) -> list[MountStep]:
    """What lies in a folder that is bound as a whole, and was not granted: each mount costs time, and hiding ten
    things is cheaper than showing two hundred."""
    shown = {path for path in granted if find_enclosing_folder(path, (_WHOLE,))}
    if not shown or _WHOLE in shown:
        return []
    above = {path[:at] for path in shown for at, char in enumerate(path) if char == "/"}
    return _hidden(_WHOLE, shown, above)


def _hidden(folder: str, shown: set[str], above: set[str]) -> list[MountStep]:
    found: list[MountStep] = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            if entry.path in shown or entry.is_symlink():
                continue
            if entry.path in above:
                found += _hidden(entry.path, shown, above)
            else:
                found.append(_mask(entry.path, entry.is_dir()))
    return found


def _mask(path: str, folder: bool) -> MountStep:
    return MountStep("empty", "", path) if folder else MountStep("read", "/dev/null", path)


def _hide(cell: KeeperPlan) -> list[MountStep]:
    inner = (path for path in cell.hide if find_enclosing_folder(path, (*cell.read, *cell.write)))
    return [_mask(path, os.path.isdir(path)) for path in inner if os.path.exists(path)]


def _links() -> list[MountStep]:
    """/bin and /lib are links on most systems."""
    with os.scandir("/") as entries:
        return [MountStep("link", os.readlink(entry.path), entry.path) for entry in entries if entry.is_symlink()]


def cover_around(folder: str, guarded: tuple[str, ...]) -> list[str]:
    """The fewest paths that cover `folder` without the guarded ones below it. All are real paths.

    What is made in a folder later that holds a guarded one is not covered; nor are links in it, which lead elsewhere.
    """
    front = folder.rstrip("/") + "/"
    below = tuple([path for path in guarded if path.startswith(front)])  # asked two hundred times for every agent
    if not below:
        return [folder]
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    entries = (os.path.join(folder, name) for name in names)
    own = [entry for entry in entries if entry not in below and not os.path.islink(entry)]
    return [piece for entry in own for piece in cover_around(entry, below)][:MAX_PIECES]
