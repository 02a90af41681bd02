"""Which remembered files (memory, SOUL.md …) hold words from outside: records of the store, and a copy in memory.

A file is marked when it is written under taint, and stays so until it is gone: what is found in it taints whoever
reads it, in any session and after any restart. The mark is on disk before the write.
"""

from __future__ import annotations

import os

import msgspec

from palinurus.core.policy import taint
from palinurus.core.prompt.bootstrap import BOOTSTRAP_FILES
from palinurus.sessions.entries import MessageEntry
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import Store

KIND = "taint"
DAILY = "memory"


class TaintMarks:
    """One per configuration; `load` before the first question."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[str, ...]] | None = None

    async def load(self) -> None:
        """Read the records, once. Raises StateError kinds."""
        if self._known is None:
            rows = await self._store.list_records(KIND)
            self._known = {row.key: _sources(row.data) for row in rows}

    def of(self, path: str) -> tuple[str, ...]:
        """Where words in this file came from; () if nobody wrote in it under taint, or it is gone."""
        known = (self._known or {}).get(path, ())
        return known if known and os.path.exists(path) else ()

    async def add(self, path: str, sources: tuple[str, ...]) -> None:
        """Remember it. Raises StateError kinds."""
        await self.load()
        assert self._known is not None
        merged = taint.join_taint(self.of(path), sources)
        if merged != self._known.get(path):
            await self._store.put_record(KIND, path, msgspec.json.encode(merged))
            self._known[path] = merged

    async def taint(self, transcript: Transcript, workspace: str, *, notes: bool) -> tuple[str, ...]:
        """What is in a session, summarised or not, and in the files it is shown. Raises StateError kinds."""
        await self.load()
        said = (entry.message for entry in transcript.path_to_leaf() if isinstance(entry, MessageEntry))
        return taint.join_taint(taint.collect_taint(said), self.workspace_taint(workspace, notes=notes))

    def workspace_taint(self, workspace: str, *, notes: bool) -> tuple[str, ...]:
        """The taint of what every run of this workspace is shown; with `notes`, of the daily notes too."""
        root = os.path.realpath(workspace)
        found = [name for name in BOOTSTRAP_FILES if self.of(os.path.join(root, name))]
        if notes:
            below = os.path.join(root, DAILY, "")
            found += [p[len(root) + 1 :] for p in self._known or () if p.startswith(below) and self.of(p)]
        return tuple(f"memory {name}" for name in found)


def _sources(data: bytes) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(data, type=tuple[str, ...])
    except msgspec.MsgspecError:
        return ("memory",)  # of another version: it was marked, that is enough
