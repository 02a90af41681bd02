"""Which folder a path lies in. Words only; nothing is looked up. Kept free of imports: the processes that start
commands load it."""

from __future__ import annotations


def is_inside(path: str, folder: str) -> bool:
    """Is `path` the folder, or below it? Both are real paths."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def find_enclosing_folder(path: str, folders: tuple[str, ...]) -> str:
    """The outermost of `folders` that is `path` or above it; "" if none is. All are real paths. The outermost, because
    what lies above it is out of reach for whoever may write inside."""
    # a sandbox has two hundred folders, of which a few can be above: asking `is_inside` of each was a sixth of a read
    above = list_folders_above(path)
    return min((folder for folder in folders if folder.rstrip("/") in above or folder == path), key=len, default="")


def list_folders_above(path: str) -> set[str]:
    """All that this real path lies in, without the last "/" of their names: "" is the root."""
    return {path[:at] for at, char in enumerate(path) if char == "/"}
