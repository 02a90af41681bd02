"""Files of a workspace by what people type after an @: the terminal's screen and the page offer them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from palinurus.beneath import FolderWalk

MOST_FILES = 5000
UNLISTED = frozenset({"node_modules", "__pycache__", "venv", "target"})  # nobody names these; neither hidden ones


def list_files(folder: str) -> list[str]:
    """The ways to files below `folder`; links are not followed. Nothing where it cannot be read."""
    found: list[str] = []
    walk = FolderWalk(os.path.realpath(folder))
    try:
        for prefix, _, entries in walk:
            for entry in entries:
                if entry.name.startswith(".") or entry.name in UNLISTED:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    walk.enter(prefix + entry.name)
                elif entry.is_file(follow_symlinks=False):
                    found.append(prefix + entry.name)
            if len(found) >= MOST_FILES:
                break
    except OSError:
        pass  # there is no such folder on this machine
    return found


def find_files(files: Iterable[str], wanted: str, most: int) -> list[str]:
    """Those whose path has the letters of `wanted` in their order; the nearest first."""
    word = wanted.lower()
    ranked = sorted((rank, len(path), path) for path in files if (rank := rank_path(path.lower(), word)) is not None)
    return [path for _, _, path in ranked[:most]]


def rank_path(path: str, wanted: str) -> int | None:
    """0: the name begins so, 1: the name has it, 2: the path has it, 3: the letters come in this order; None: no."""
    name = path.rpartition("/")[2]
    if wanted in path:
        return 0 if name.startswith(wanted) else 1 if wanted in name else 2
    letters = iter(path)
    return 3 if all(char in letters for char in wanted) else None
