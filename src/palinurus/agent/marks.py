"""Which files (memory, SOUL.md, code …) hold words from outside: records of the store, and a copy in memory.

A file is marked when it is written under taint, and stays so until it is gone: what is found in it taints whoever
reads it, in any session and after any restart. The mark is on disk before the write.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec

from palinurus.core.policy import lasting, taint
from palinurus.core.prompt.bootstrap import BOOTSTRAP_FILES
from palinurus.core.types.messages import UserMessage
from palinurus.sessions.entries import CustomMessageEntry, MessageEntry, TranscriptEntry, to_message
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import Store
from palinurus.store.records import Records
from palinurus.taping import ask_taped

KIND = "taint"
DAILY = "memory"


class TaintMarks:
    """One per configuration; `load` before the first question."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._records: Records[tuple[str, ...]] = Records(store, KIND, tuple[str, ...])
        self._known: dict[str, tuple[str, ...]] | None = None

    async def load(self) -> None:
        """Read the records, once. Raises StateError kinds."""
        if self._known is None:
            rows = await self._store.list_records(KIND)
            self._known = {row.key: _sources(row.data) for row in rows}

    @property
    def has_any(self) -> bool:
        """Is there a mark at all?"""
        return bool(self._known)

    def of(self, path: str) -> tuple[str, ...]:
        """Where words in this file came from; () if nobody wrote in it under taint, or it is gone."""
        marks = self._known
        if not marks:
            return ()
        at, known = path, marks.get(path, ())
        while not known and len(at) > 1:  # a folder's mark is that of all in it
            at = os.path.dirname(at)
            known = marks.get(at, ())
        return known if known and os.path.exists(path) else ()

    def list_below(self, folder: str, *, project: bool = False) -> tuple[str, ...]:
        """What was written there after content from outside was read, remembered files left out (a `project` has
        none): they taint readers."""
        top = folder.rstrip("/") + "/"
        return tuple(
            path
            for path, sources in (self._known or {}).items()
            if (path == folder or path.startswith(top))
            and taint.is_from_outside(sources)
            and (project or not lasting.is_shaping_file(path[len(top) :]))
            and os.path.exists(path)
        )

    async def remove(self, paths: Iterable[str]) -> None:
        """Forget these marks: the owner has seen the files. Raises StateError kinds."""
        for path in paths:
            if (self._known or {}).pop(path, None) is not None:
                await self._store.put_record(KIND, path, None)

    async def add(self, path: str, sources: tuple[str, ...]) -> None:
        """Remember it. Raises StateError kinds."""
        await self.load()
        assert self._known is not None
        if taint.join_taint(self._known.get(path, ()), sources) != self._known.get(path):
            kept = await self._records.update(path, lambda known: taint.join_taint(known or (), sources))
            self._known[path] = kept or sources

    async def reread(self, path: str) -> None:
        """Another node has marked it, or taken the mark away. Raises StateError kinds."""
        if self._known is not None:
            row = await self._store.get_record(KIND, path)
            self._known.pop(path, None)
            if row is not None:
                self._known[path] = _sources(row.data)

    async def taint(
        self, transcript: Transcript, workspace: str, *, notes: bool, project: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """What is in a session, summarised or not, and in the files it is shown: the agent's own, and those of a
        project (their paths), which are not the owner's words. Raises StateError kinds."""
        look = partial(self._taint, transcript, workspace, notes=notes, project=tuple(project))
        return await ask_taped("taint", look, tuple[str, ...])

    async def _taint(
        self, transcript: Transcript, workspace: str, *, notes: bool, project: tuple[str, ...]
    ) -> tuple[str, ...]:
        await self.load()
        found = taint.join_taint(find_session_taint(transcript), self.workspace_taint(workspace, notes=notes))
        shown = (one for path in project for one in (f"file {os.path.basename(path)}", *self.of(path)))
        return taint.join_taint(found, shown)

    def workspace_taint(self, workspace: str, *, notes: bool) -> tuple[str, ...]:
        """The taint of what every run of this workspace is shown; with `notes`, of the daily notes too."""
        if not self._known:
            return ()
        root = os.path.realpath(workspace)
        found = [name for name in BOOTSTRAP_FILES if self.of(os.path.join(root, name))]
        if notes:
            below = os.path.join(root, DAILY, "")
            found += [p[len(root) + 1 :] for p in self._known or () if p.startswith(below) and self.of(p)]
        return tuple(f"memory {name}" for name in found)


def find_session_taint(transcript: Transcript) -> tuple[str, ...]:
    """What all that was said in a session brings along, summarised or not."""
    return transcript.gather(_add_taint, ())


def find_said_sources(transcript: Transcript) -> Mapping[str, None]:
    """Whose words the messages to the agent were, each source once; the owner's own have none."""
    return transcript.gather(_add_sources, {})


def _add_sources(found: Mapping[str, None], entries: Sequence[TranscriptEntry]) -> Mapping[str, None]:
    said = (entry.message for entry in entries if isinstance(entry, MessageEntry))
    return {**found, **{one.source: None for one in said if isinstance(one, UserMessage) and one.source}}


def _add_taint(found: tuple[str, ...], entries: Sequence[TranscriptEntry]) -> tuple[str, ...]:
    said = (
        entry.message if isinstance(entry, MessageEntry) else to_message(entry)
        for entry in entries
        if isinstance(entry, MessageEntry | CustomMessageEntry)
    )
    return taint.collect_taint((message for message in said if message is not None), found)


def _sources(data: bytes) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(data, type=tuple[str, ...])
    except msgspec.MsgspecError:
        return ("memory",)  # of another version: it was marked, that is enough
