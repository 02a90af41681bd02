"""What the model is shown of a path through a transcript: from the compaction that counts to the leaf.

A compaction deletes nothing: its line names the range it stands for, and a later line may take it back. Pure; knows
entries, no files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from palinurus.core.types.messages import Message
from palinurus.sessions.entries import UNDONE, Compaction, Custom, Entry, condensed, millis, spoken


class Shown(NamedTuple):
    """A message, and the entry it comes from."""

    entry: Entry
    message: Message


class Checkpoint(NamedTuple):
    """A compaction on the path. `undone`: it was taken back; `counts`: it is the one the model sees."""

    entry: Compaction
    before: str | None  # the entry it hangs on: where the conversation stood
    undone: bool
    counts: bool

    @property
    def details(self) -> dict[str, Any]:
        return self.entry.details if isinstance(self.entry.details, dict) else {}


def counting(path: Sequence[Entry]) -> int | None:
    """Where the compaction stands that counts: the last one that no later line took back."""
    undone: set[str] = set()
    for at in range(len(path) - 1, -1, -1):
        entry = path[at]
        if type(entry) is Compaction and entry.id not in undone:
            return at
        if type(entry) is Custom and entry.customType == UNDONE:
            undone.add(_target(entry))
    return None


def shown(path: Sequence[Entry]) -> tuple[list[Shown], int]:
    """What the model sees, and how many of these are older than the last compaction (its summary included)."""
    cut = counting(path)
    if cut is None:
        return _spoken(path), 0
    last = path[cut]
    assert isinstance(last, Compaction)
    made = [Shown(last, condensed(last.summary, millis(last.timestamp)))]
    wanted = last.firstKeptEntryId
    kept = next((at for at in range(cut - 1, -1, -1) if path[at].id == wanted), None) if wanted else None
    if kept is not None:
        made += _spoken(path[kept:cut])
    older = len(made)
    return made + _spoken(path[cut + 1 :]), older


def checkpoints(path: Sequence[Entry]) -> list[Checkpoint]:
    """Every compaction on the path, oldest first."""
    cut = counting(path)
    undone = {_target(e) for e in path if isinstance(e, Custom) and e.customType == UNDONE}
    return [
        Checkpoint(entry, path[at - 1].id if at else None, entry.id in undone, at == cut)
        for at, entry in enumerate(path)
        if isinstance(entry, Compaction)
    ]


def undo(target: str) -> Custom:
    """The line that takes a compaction back."""
    return Custom(customType=UNDONE, data={"targetId": target})


def _spoken(path: Sequence[Entry]) -> list[Shown]:
    return [Shown(entry, message) for entry in path if (message := spoken(entry)) is not None]


def _target(entry: Custom) -> str:
    return str(entry.data.get("targetId") or "") if isinstance(entry.data, dict) else ""
