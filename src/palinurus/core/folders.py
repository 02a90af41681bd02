"""Which folder a path lies in. Words only; nothing is looked up. Kept free of imports: the processes that start
commands load it."""

from __future__ import annotations


def is_inside(path: str, folder: str) -> bool:
    """Is `path` the folder, or below it? Both are real paths."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def find_enclosing_folder(path: str, folders: tuple[str, ...]) -> str:
    """The outermost of `folders` that is `path` or above it; "" if none is. All are real paths.

    The outermost, because what lies above it is out of reach for whoever may write inside.
    """
    return min((folder for folder in folders if is_inside(path, folder)), key=len, default="")
