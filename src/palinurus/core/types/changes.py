"""What a run changed in its workspace: the states of files, before and after. Values only.

Contents are kept apart, by their hash (`tools/changes/blobs.py`). How long, and how much of a workspace is looked at,
is in `ChangeRules`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

FileKind: TypeAlias = Literal["file", "link", "folder"]


class ChangeRules(msgspec.Struct, frozen=True):
    """tools.changes, with sizes in bytes and ages in milliseconds."""

    enabled: bool = True
    files: int = 5_000  # of a workspace that are looked at around a command; with more, none is
    file_bytes: int = 4 << 20  # of one file whose content is kept
    bytes: int = 256 << 20  # of all contents
    runs: int = 200
    age: int = 30 * 86_400_000


class FileState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file, link or folder as it was at one moment. Two that are equal are the same for us."""

    kind: FileKind = "file"
    mode: int = 0o600
    size: int = 0
    hash: str = ""  # of the content of a file; "": it was not kept
    link: str = ""  # where a link leads
    mark: str = ""  # of a file whose content was not kept: tells it from others of its size

    @property
    def kept(self) -> bool:
        """Could it be made again?"""
        return self.kind != "file" or bool(self.hash)


class FileChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One path of a workspace, before and after. None: there was, or is, nothing."""

    path: str  # from the workspace, with slashes
    before: FileState | None = None
    after: FileState | None = None
    tool: str = ""  # the last one that changed it

    @property
    def what(self) -> str:
        """In one word."""
        if self.before is None:
            return "created"
        if self.after is None:
            return "deleted"
        same = msgspec.structs.replace(self.before, mode=self.after.mode) == self.after
        return "mode" if same else "changed"


class UndoStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """What undoing (or doing again) does to one path."""

    path: str
    was: FileState | None = None
    to: FileState | None = None
    merged: bool = False  # somebody's later change was kept


class RunChanges(msgspec.Struct, frozen=True, kw_only=True):
    """All that is kept of one run, by the inbox id of its message."""

    item: str
    session: str
    agent: str
    workspace: str  # a real path
    at: int  # when it first changed something
    changes: tuple[FileChange, ...] = ()
    notes: tuple[str, ...] = ()  # what could not be kept, and why
    undone: tuple[UndoStep, ...] | None = None  # what the last undo did; None: it stands


def fold_changes(changes: list[FileChange]) -> tuple[FileChange, ...]:
    """Several changes of one path as one; what is as it was in the end is none. Sorted by path."""
    made: dict[str, FileChange] = {}
    for one in changes:
        first = made.get(one.path)
        made[one.path] = msgspec.structs.replace(one, before=first.before) if first is not None else one
    return tuple(made[path] for path in sorted(made) if made[path].before != made[path].after)
