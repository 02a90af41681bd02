"""What the model is shown of a path through a transcript: from the compaction that counts to the leaf.

A compaction deletes nothing: its line names the range it stands for, and a later line may take it back. Pure; knows
entries, no files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from palinurus.core.types.messages import Message
from palinurus.sessions import entries

ROOT = -1  # what the first entry hangs on
T = TypeVar("T")


class ShownMessage(msgspec.Struct, frozen=True):
    """A message, and the entry it comes from."""

    entry: entries.TranscriptEntry
    message: Message


class CompactionCheckpoint(msgspec.Struct, frozen=True):
    """A compaction on the path. `undone`: it was taken back; `counts`: it is the one the model sees."""

    entry: entries.CompactionEntry
    before: str | None  # the entry it hangs on: where the conversation stood
    undone: bool
    counts: bool

    @property
    def details(self) -> dict[str, Any]:
        return self.entry.details if isinstance(self.entry.details, dict) else {}


def find_last_compaction(path: Sequence[entries.TranscriptEntry]) -> int | None:
    """Where the compaction stands that counts: the last one that no later line took back."""
    undone: set[str] = set()
    for at in range(len(path) - 1, -1, -1):
        entry = path[at]
        if type(entry) is entries.CompactionEntry and entry.id not in undone:
            return at
        if type(entry) is entries.CustomEntry and entry.customType == entries.UNCOMPACTED_TYPE:
            undone.add(_target(entry))
    return None


def list_shown_messages(path: Sequence[entries.TranscriptEntry]) -> tuple[list[ShownMessage], int]:
    """What the model sees, and how many of these are older than the last compaction (its summary included)."""
    cut = find_last_compaction(path)
    if cut is None:
        return _spoken(path), 0
    last = path[cut]
    assert isinstance(last, entries.CompactionEntry)
    made = [ShownMessage(last, entries.make_summary_message(last.summary, entries.to_millis(last.timestamp)))]
    wanted = last.firstKeptEntryId
    kept = next((at for at in range(cut - 1, -1, -1) if path[at].id == wanted), None) if wanted else None
    if kept is not None:
        made += _spoken(path[kept:cut])
    older = len(made)
    return made + _spoken(path[cut + 1 :]), older


def list_checkpoints(path: Sequence[entries.TranscriptEntry]) -> list[CompactionCheckpoint]:
    """Every compaction on the path, oldest first."""
    cut = find_last_compaction(path)
    undone = {
        _target(e) for e in path if isinstance(e, entries.CustomEntry) and e.customType == entries.UNCOMPACTED_TYPE
    }
    return [
        CompactionCheckpoint(entry, path[at - 1].id if at else None, entry.id in undone, at == cut)
        for at, entry in enumerate(path)
        if isinstance(entry, entries.CompactionEntry)
    ]


def count_compactions(before: int, path: Sequence[entries.TranscriptEntry]) -> int:
    """How many there are with these, taken back or not."""
    return before + sum(isinstance(entry, entries.CompactionEntry) for entry in path)


def make_undo_entry(target: str) -> entries.CustomEntry:
    """The line that takes a compaction back."""
    return entries.CustomEntry(customType=entries.UNCOMPACTED_TYPE, data={"targetId": target})


def _spoken(path: Sequence[entries.TranscriptEntry]) -> list[ShownMessage]:
    return [ShownMessage(entry, message) for entry in path if (message := entries.to_message(entry)) is not None]


def _target(entry: entries.CustomEntry) -> str:
    return str(entry.data.get("targetId") or "") if isinstance(entry.data, dict) else ""


class EntryPath:
    """The way from the root to the leaf of one transcript: its entries, and for each the position of the one it hangs
    on. Entries are added to both, or taken from their end.

    A session of years has ten thousand lines, and every turn asks for all of them. What leads to an entry never
    changes, so what was made of it stays good, and only the entries after it are looked at.
    """

    def __init__(self, lines: list[entries.TranscriptEntry], parents: list[int]) -> None:
        self._entries, self._parents = lines, parents
        self._leaf, self._way = ROOT, list[entries.TranscriptEntry]()  # the last way that was asked for
        self._gathered: dict[object, tuple[int, entries.TranscriptEntry, Any]] = {}

    def read(self, leaf: int) -> list[entries.TranscriptEntry]:
        """The entries from the root to the one at this position. Not to be changed."""
        known = self._leaf
        if known != ROOT and (known >= len(self._entries) or self._entries[known] is not self._way[-1]):
            known = ROOT  # it was taken away
        fresh, at = list[entries.TranscriptEntry](), leaf
        while at not in (ROOT, known):
            fresh.append(self._entries[at])
            at = self._parents[at]
        if at == ROOT:
            self._way = []
        self._way += reversed(fresh)
        self._leaf = leaf
        return self._way

    def gather(self, leaf: int, add: Callable[[T, Sequence[entries.TranscriptEntry]], T], start: T) -> T:
        """What `add` makes of that way, given what it made of the first entries and those that follow."""
        way = self.read(leaf)
        size, last, value = self._gathered.get(add, (0, None, start))
        if size > len(way) or (size and way[size - 1] is not last):  # it was another way
            size, value = 0, start
        if size < len(way):
            value = add(value, way[size:])
            self._gathered[add] = (len(way), way[-1], value)
        found: T = value
        return found
