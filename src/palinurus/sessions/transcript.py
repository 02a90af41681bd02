"""One transcript file in memory: the tree of its lines, the messages on the current path, the next line to write.

Never writes transcript files: the lines it makes go to disk through the store's journal. It reads them, and puts
copies of unreadable pieces beside them (`set_aside`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import UNSET

from palinurus.core.types.messages import AssistantMessage, Message
from palinurus.errors import NotFound, StateUnwritable
from palinurus.files import open_plain_file, write_whole_file
from palinurus.sessions.compactions import ROOT, EntryPath, list_shown_messages
from palinurus.sessions.entries import (
    LEAF_TYPE,
    TRANSCRIPT_VERSION,
    UNCOMPACTED_TYPE,
    CompactionEntry,
    CustomEntry,
    KnownEntry,
    LevelChangeEntry,
    MessageEntry,
    ModelChangeEntry,
    TranscriptEntry,
    TranscriptHeader,
    encode_entry,
    encode_header,
    to_iso,
    to_message,
)
from palinurus.sessions.scan import BadPiece, scan_transcript
from palinurus.store.port import TranscriptLine
from palinurus.taping import draw_token

T = TypeVar("T")
_INLINE = 256 * 1024  # bytes read on the event loop; more goes to a thread
_CACHED_BYTES = 64 * 1024 * 1024  # room for one very long session beside the others


class TranscriptMark(msgspec.Struct, frozen=True):
    """A state to go back to."""

    entries: int
    leaf: int
    header: TranscriptHeader | None
    size: int
    said: int
    build: int


class Transcript:
    """The lines of one file, as a tree by `parentId`; `leaf` is where the conversation stands.

    `path` is relative to home. `bad` are the pieces that could not be read; they are not in the tree.
    """

    def __init__(self, path: str, cwd: str = "", *, key: str = "", ids: Callable[[], str] | None = None) -> None:
        self.path = path
        self.cwd = cwd
        self.key = key
        self.header: TranscriptHeader | None = None
        self.entries: list[TranscriptEntry] = []
        self.bad: tuple[BadPiece, ...] = ()
        self.size = 0  # bytes on file, lines made here included
        self._ids = ids or (lambda: draw_token(4))
        self._parents: list[int] = []  # index of the parent, always smaller than the own: no cycles
        self._index: dict[str, int] = {}
        self._items: dict[str, list[int]] = {}
        self._leaf = ROOT
        self._said: list[Message] = []
        self._kept = 0
        self._build = 0  # counts rebuilds of `_said`
        self._stale = False
        self._tuple: tuple[Message, ...] | None = None
        self._way = EntryPath(self.entries, self._parents)

    # --- reading ---------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> str:
        """From the header, else from the file's name."""
        name = self.path.rpartition("/")[2].removesuffix(".jsonl").partition("-topic-")[0]
        return (self.header.id if self.header else "") or name

    @property
    def leaf(self) -> str | None:
        """Id of the entry the next one hangs on."""
        return self.entries[self._leaf].id if self._leaf != ROOT else None

    def messages(self) -> tuple[Message, ...]:
        """What the model is to see: the path from the root to the leaf, begun at the last compaction on it."""
        if self._stale:
            self._rebuild()
        if self._tuple is None:
            self._tuple = tuple(self._said)
        return self._tuple

    @property
    def older_count(self) -> int:
        """How many of `messages()` are older than the last compaction (its summary included); 0 without one."""
        self.messages()
        return self._kept

    def entries_of(self, item: str) -> list[TranscriptEntry]:
        """The lines that belong to an inbox message, in the order of the file."""
        return [self.entries[i] for i in self._items.get(item, ())]

    def entry(self, ident: str) -> TranscriptEntry | None:
        """By id."""
        position = self._index.get(ident)
        return None if position is None else self.entries[position]

    def parents(self) -> list[int]:
        """For each of `entries` the position of the one it hangs on, -1 for none; always before its own."""
        return list(self._parents)

    def path_to_leaf(self) -> list[TranscriptEntry]:
        """The entries from the root to the leaf."""
        return list(self._way.read(self._leaf))

    def gather(self, add: Callable[[T, Sequence[TranscriptEntry]], T], start: T) -> T:
        """What `add` makes of the entries from the root to the leaf, those it has seen already only once."""
        return self._way.gather(self._leaf, add, start)

    def model(self) -> tuple[str, str] | None:
        """(provider, model id) last chosen or last used on the path."""
        for entry in reversed(self.path_to_leaf()):
            if isinstance(entry, ModelChangeEntry):
                return entry.provider, entry.modelId
            if (
                isinstance(entry, MessageEntry)
                and isinstance(entry.message, AssistantMessage)
                and to_message(entry)
                and entry.message.model
            ):
                return entry.message.provider, entry.message.model
        return None

    def level(self) -> str | None:
        """The thinking level last chosen on the path."""
        for entry in reversed(self.path_to_leaf()):
            if isinstance(entry, LevelChangeEntry):
                return entry.thinkingLevel
        return None

    # --- writing ---------------------------------------------------------------------------------------------

    def add(self, message: Message, item: str, now: int) -> tuple[TranscriptLine, ...]:
        """The next message. Returns the lines to make durable: the header's too if the file has none yet."""
        return self.add_entry(MessageEntry(message=message, item=item), now)

    def add_entry(self, entry: KnownEntry, now: int) -> tuple[TranscriptLine, ...]:
        """Any entry; its id, parent and time are set here. Remembered at once: see `mark` for taking it back."""
        lines: list[TranscriptLine] = []
        if self.header is None and not self.entries:
            self.header = TranscriptHeader(
                version=TRANSCRIPT_VERSION,
                id=self.session_id,
                timestamp=to_iso(now),
                cwd=self.cwd,
                sessionKey=self.key,
            )
            lines.append(TranscriptLine(self.path, self.header.id, encode_header(self.header)))
        entry = msgspec.structs.replace(entry, id=self._fresh(), parentId=self.leaf, timestamp=to_iso(now))
        entry, data = encode_entry(entry)
        lines.append(TranscriptLine(self.path, entry.id, data))
        self._attach(entry, self._leaf)
        self.size += sum(len(line.data) + 1 for line in lines)
        return tuple(lines)

    def branch(self, entry_id: str | None) -> None:
        """Move the leaf to an older entry (None: before the first). Nothing is deleted. Raises NotFound."""
        if entry_id is not None and entry_id not in self._index:
            raise NotFound(f"{self.path}: no entry {entry_id!r}")
        self._leaf = ROOT if entry_id is None else self._index[entry_id]
        self._stale = True

    def branch_line(self, entry_id: str | None, now: int) -> tuple[TranscriptLine, ...]:
        """As `branch`, but lasting: the line to write, with which a later reading stands at `entry_id` too."""
        self.branch(entry_id)
        return self.add_entry(CustomEntry(customType=LEAF_TYPE, data={"targetId": entry_id}), now)

    def mark(self) -> TranscriptMark:
        """Where things stand, to return to if the lines made from here on do not reach the disk."""
        self.messages()
        return TranscriptMark(
            len(self.entries), self._leaf, self.header, self.size, said=len(self._said), build=self._build
        )

    def rollback(self, mark: TranscriptMark, lines: Sequence[TranscriptLine]) -> None:
        """Forget `lines`, made since `mark`. If a run has begun meanwhile and hangs on them they stay."""
        if not lines or self.entries[-1].id != lines[-1].id:
            return
        for position in range(len(self.entries) - 1, mark.entries - 1, -1):
            entry = self.entries[position]
            del self._index[entry.id]
            if entry.item:
                self._items[entry.item].pop()
        del self.entries[mark.entries :], self._parents[mark.entries :]
        self._leaf, self.header, self.size = mark.leaf, mark.header, mark.size
        self._tuple = None
        self._stale = self._build != mark.build  # what was said is what it was at the mark, or was put together anew
        if not self._stale:
            del self._said[mark.said :]

    # --- inside ----------------------------------------------------------------------------------------------

    def _fresh(self) -> str:
        ident = self._ids()
        while ident in self._index:
            ident = self._ids()
        return ident

    def _attach(self, entry: TranscriptEntry, parent: int) -> None:
        position = len(self.entries)
        self.entries.append(entry)
        self._parents.append(parent)
        if entry.id:
            self._index[entry.id] = position
        if entry.item:
            self._items.setdefault(entry.item, []).append(position)
        self._leaf = position
        turns = isinstance(entry, CompactionEntry) or (
            isinstance(entry, CustomEntry) and entry.customType == UNCOMPACTED_TYPE
        )
        if turns:
            self._stale = True
        elif not self._stale and (message := to_message(entry)) is not None:
            self._said.append(message)
            self._tuple = None

    def _rebuild(self) -> None:
        seen, self._kept = list_shown_messages(self.path_to_leaf())
        self._said = [said.message for said in seen]
        self._stale, self._tuple = False, None
        self._build += 1

    def fill(self, data: bytes) -> None:
        """Take the content of the file, or what another node has added to it since."""
        header, entries, bad = scan_transcript(data)
        self.header = self.header or header
        self.bad, self.size = (*self.bad, *bad), self.size + len(data)
        self._stale = True
        index = self._index
        previous = self._leaf
        for entry in entries:
            if not entry.id:  # unknown and without a place: kept, but nothing may hang on it
                self.entries.append(entry)
                self._parents.append(ROOT)
                continue
            seen = index.get(entry.id)
            if seen is not None and self.entries[seen] == entry:
                continue  # the same line written twice
            parent = previous
            if entry.parentId is None:
                parent = ROOT
            elif entry.parentId is not UNSET:
                # A parent that is not above is lost or lies: the line before is the best guess, and never a cycle.
                parent = index.get(entry.parentId, previous)
            self._attach(entry, parent)
            previous = self._leaf


def read_transcript(file: str, path: str = "", cwd: str = "") -> Transcript:
    """Load `file`; one that does not exist gives an empty transcript. Broken content is never fatal.

    `path` is the name relative to home that its lines will carry. Raises StateUnwritable when the file cannot be opened
    or is none (a pipe, a device).
    """
    transcript = Transcript(path or file, cwd)
    data = b""
    try:
        with open_plain_file(file, follow=True) as handle:
            data = handle.read()
    except FileNotFoundError:
        pass
    except OSError as exc:
        reason = exc.strerror or "not a regular file"
        raise StateUnwritable(f"{file}: {reason}", fix="check who owns the file and its mode") from exc
    transcript.fill(data)
    return transcript


def set_aside(transcript: Transcript, file: str) -> str:
    """Copy the unreadable pieces to `<file>.bad-<n>` (0600); the file itself is not touched.

    Returns the copy's name; "" if there was nothing to copy, or the disk does not take it: a copy that fails
    must not keep the session from loading.
    """
    if not transcript.bad:
        return ""
    content = b"".join(f"# byte {b.offset}: {b.reason}\n".encode() + b.data + b"\n" for b in transcript.bad)
    number, name = 1, f"{file}.bad-1"
    with contextlib.suppress(OSError):
        while os.path.exists(name):
            with open_plain_file(name) as handle:
                if handle.read() == content:
                    return name
            number += 1
            name = f"{file}.bad-{number}"
        write_whole_file(name, content, sync=False)
        return name
    return ""


class Transcripts:
    """The transcripts in use, least recently used ones dropped; `forget` is for files replaced from outside. `tail`
    gives what a transcript holds beyond so many bytes, all of it and what another node has added since: see
    `Store.read_tail`. Without it files are read, for who looks where nobody writes."""

    def __init__(
        self,
        home: str,
        max_cached: int = 64,
        max_bytes: int = _CACHED_BYTES,
        *,
        tail: Callable[[str, int], Awaitable[bytes]] | None = None,
    ) -> None:
        self._home = home
        self._tail = tail
        self._max = max_cached
        self._max_bytes = max_bytes
        self._cached: OrderedDict[str, Transcript] = OrderedDict()
        # One that a run still holds is handed out again even after it left the cache: there are never two.
        self._live: WeakValueDictionary[str, Transcript] = WeakValueDictionary()
        self._loading: dict[str, asyncio.Future[Transcript]] = {}

    async def load(self, relpath: str, cwd: str = "", key: str = "") -> Transcript:
        """The transcript at `relpath` under home; a new one, of the session `key`, if there is no file.

        Raises StateUnwritable."""
        transcript = self._live.get(relpath)
        if transcript is None:
            pending = self._loading.get(relpath)
            if pending is None:
                pending = asyncio.ensure_future(self._read(relpath, cwd))
                self._loading[relpath] = pending
                pending.add_done_callback(lambda _: self._loading.pop(relpath, None))
            transcript = await asyncio.shield(pending)
        elif self._tail is not None:
            known = transcript.size
            if (rest := await self._tail(relpath, known)) and transcript.size == known:  # else it was read meanwhile
                transcript.fill(rest)
        transcript.key = key or transcript.key
        self._keep(relpath, transcript)
        return transcript

    def forget(self, relpath: str) -> None:
        """Read the file again next time."""
        self._cached.pop(relpath, None)
        self._live.pop(relpath, None)

    async def _read(self, relpath: str, cwd: str) -> Transcript:
        file = os.path.join(self._home, relpath)
        if self._tail is not None:
            transcript, data = Transcript(relpath, cwd), await self._tail(relpath, 0)
            if len(data) > _INLINE:
                await asyncio.to_thread(_fill, transcript, data, file)
            else:
                _fill(transcript, data, file)
        else:
            transcript = await asyncio.to_thread(read_transcript, file, relpath, cwd)
            set_aside(transcript, file)
        self._live[relpath] = transcript
        return transcript

    def _keep(self, relpath: str, transcript: Transcript) -> None:
        self._cached[relpath] = transcript
        self._cached.move_to_end(relpath)
        weight = sum([t.size for t in self._cached.values()])
        while len(self._cached) > 1 and (len(self._cached) > self._max or weight > self._max_bytes):
            _, dropped = self._cached.popitem(last=False)
            weight -= dropped.size


def _fill(transcript: Transcript, data: bytes, file: str) -> None:
    transcript.fill(data)
    transcript.messages()
    set_aside(transcript, file)
