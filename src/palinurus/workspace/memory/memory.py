"""One agent's memory: brought up to date when it is looked at, searched, read, explained, undone.

Synchronous and locked: `memories.py` calls it from threads, the command line directly. A search never fails because of
the index or the history; it says what it had to do without.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from palinurus.clock import Clock
from palinurus.core.memory import results
from palinurus.core.memory.blame import blame_lines, diff_versions
from palinurus.core.memory.indexing import parse_query
from palinurus.errors import BadRequest, NotFound, StateUnwritable
from palinurus.workspace.memory.embedder import Embedder
from palinurus.workspace.memory.files import MemoryFile, MemoryRoots
from palinurus.workspace.memory.history import MemoryAuthor, MemoryHistory, MemoryVersion
from palinurus.workspace.memory.index import MemoryIndex

log = logging.getLogger(__name__)

BATCH = 2  # pieces that get their vectors together: a search waits no longer than for these


class MemoryChange(msgspec.Struct, frozen=True):
    """What is known about changes that are looked for now. `path`: the real file the call named, "" if none."""

    author: MemoryAuthor
    since: int  # milliseconds: what is older was not made by this call
    path: str = ""


class MemoryUndo(msgspec.Struct, frozen=True):
    """`to`: the number of the version that is back; 0 when the file was removed, as it was before the first."""

    path: str
    to: int
    diff: str


class TracedMemoryLine(msgspec.Struct, frozen=True):
    """A line, and the version it came with."""

    line: int
    text: str
    version: MemoryVersion


class AgentMemory:
    """`home` is the state directory. Nothing is opened before the first use. Without an embedder words decide."""

    def __init__(
        self,
        home: str,
        agent: str,
        workspace: str,
        options: results.MemoryOptions,
        clock: Clock,
        embedder: Embedder | None = None,
    ) -> None:
        self.roots = MemoryRoots(workspace, options.extra)
        self.options = options
        self._clock = clock
        self._embedder = embedder
        self._index = MemoryIndex(f"{home}/memory/{agent}.sqlite", str(self.roots), options.chunk, options.overlap)
        self._history = MemoryHistory(f"{home}/memory/{agent}.history.sqlite")
        self._lock = threading.RLock()
        self._told = ""  # the last trouble that was logged

    def close(self) -> None:
        with self._lock:
            self._index.close()
            self._history.close()

    # --- looking ------------------------------------------------------------------------------------------------

    def search(
        self, text: str, session: str, limit: int | None = None, least: float | None = None
    ) -> results.MemoryFindings:
        """Best first. Raises nothing: what cannot be done is said in the value."""
        if not self.options.enabled:
            return results.MemoryFindings(disabled="memory search is switched off (memorySearch.enabled)")
        most = min(max(limit or self.options.max_results, 1), 50)
        score = self.options.min_score if least is None else least
        asked = parse_query(text)
        with self._lock:
            for attempt in range(2):
                try:
                    note = self.refresh()
                    matches = self._index.matches(asked, most)
                    break
                except sqlite3.Error as exc:
                    if attempt:
                        return results.MemoryFindings(disabled=f"the memory index cannot be used: {exc}")
                    self._index.renew(exc)
        hits = results.rank_matches(matches, asked.words, most, score)
        near, trouble = self._near(text, most * 2)
        if near:
            closest = results.rank_matches(near, asked.words, len(near), score)
            hits = results.fuse_rankings(hits, closest, most)
        if results.should_cite(self.options.citations, session):
            hits = [msgspec.structs.replace(hit, citation=results.cite_hit(hit)) for hit in hits]
        return results.MemoryFindings(tuple(hits), note=note or trouble)

    def _near(self, text: str, count: int) -> tuple[list[results.MemoryMatch], str]:
        """The pieces nearest in meaning, and what went wrong. Not under the lock while the child works."""
        embedder = self._embedder
        if embedder is None or embedder.why() or not text.strip():
            return [], ""
        try:
            with self._lock:
                file = self._index.file
                if not file or not self._index.vectors():
                    return [], ""
            found = embedder.near(file, text[:4000], count)
            if found is None:
                return [], embedder.trouble
            with self._lock:
                return self._index.pieces(found), ""
        except sqlite3.Error as exc:
            return [], f"the vectors of memory cannot be used ({exc})"

    def fill(self) -> int:
        """Give some pieces their vectors; how many. 0: none is left, or none can be made. Raises sqlite3.Error."""
        embedder = self._embedder
        if embedder is None or not self.options.enabled or embedder.why():
            return 0
        with self._lock:
            pieces = self._index.pieces_without_vector(BATCH) if self._index.behind and self._index.file else []
        made = embedder.embed([piece.text for piece in pieces]) if pieces else None
        if not made:
            return 0
        with self._lock:
            self._index.keep_vectors(zip((piece.hash for piece in pieces), made, strict=True))
        return len(made)

    def vectors(self) -> tuple[int, str]:
        """How many pieces have vectors, and why they are not used ("" when they are). Raises sqlite3.Error."""
        with self._lock:
            why = "no model was given" if self._embedder is None else self._embedder.why()
            return self._index.vectors(), why or ("" if self._index.file else "the index is only in main memory")

    def get(self, path: str, start: int = 1, lines: int | None = None) -> results.MemoryExcerpt | results.MemoryRefusal:
        """A window of a memory file."""
        real = self.roots.real(path)
        if real is None:
            return results.MemoryRefusal(
                "only MEMORY.md, memory/**/*.md and configured extra paths are memory; use read for others"
            )
        shown = self.roots.display_path(real)
        try:
            data = self.roots.read(real)
        except OSError as exc:
            return results.MemoryRefusal(f"{shown} cannot be read: {exc.strerror or exc}")
        if data is None:
            return results.MemoryExcerpt(shown, missing=True)
        return results.cut_excerpt(
            shown, _text(data), start, lines or self.options.get_lines, room=self.options.get_chars
        )

    def size(self) -> tuple[int, int, str]:
        """Files, chunks, and what is not as it should be. Raises sqlite3.Error."""
        with self._lock:
            note = self.refresh()
            return (*self._index.size(), note)

    # --- keeping up ---------------------------------------------------------------------------------------------

    def refresh(self, change: MemoryChange | None = None) -> str:
        """Read what changed; keep its versions. With a change that names a file, only that one is looked at.

        Returns a note about what could not be done. Raises sqlite3.Error when the index is damaged.
        """
        with self._lock:
            known = self._index.known()
            note = self._index.note
            entries = list(self.roots.scan())
            gone = known.keys() - {entry.path for entry in entries}
            if change is not None and change.path:
                only = self.roots.display_path(change.path)
                entries, gone = [entry for entry in entries if entry.path == only], gone & {only}
            stale = [e for e in entries if e.path not in known or known[e.path][:2] != (e.size, e.mtime)]
            try:
                fresh = self._remember(stale, gone, change, whole=change is None or not change.path)
            except (sqlite3.Error, zlib.error, OSError) as exc:
                note = f"the memory's history cannot be kept ({exc})"
                if note != self._told:
                    log.warning("%s", note)
                self._told = note
                fresh = {e.path: _read(self.roots, e) for e in stale}
            self._reindex(stale, gone, fresh, known)
            return note

    def _remember(
        self, stale: list[MemoryFile], gone: Iterable[str], change: MemoryChange | None, *, whole: bool
    ) -> dict[str, bytes | None]:
        """Put changed files into the history; what was read is returned. The history comes before the index: what
        a crash leaves out of the index is looked at again."""
        read: dict[str, bytes | None] = {}
        now = self._clock.now()
        begun = self._history.has_begun(now)
        if begun and not stale and not gone and change is None:
            return read
        heads = self._history.heads(now)
        for entry in stale:
            data = read[entry.path] = _read(self.roots, entry)
            head = heads.get(entry.real)
            digest = _hash(data)
            if data is None or (head is not None and head.hash == digest):
                continue
            kind, author = _origin(entry, change) if begun or head is not None else ("found", MemoryAuthor())
            self._history.add(MemoryVersion(0, entry.real, now, kind, hash=digest, data=data, author=author))
        for real in self._lost(heads, change):
            kind, author = ("changed", MemoryAuthor()) if change is None else (_kind(change), change.author)
            self._history.add(MemoryVersion(0, real, now, kind, hash="", data=None, author=author))
        if not begun and whole:
            self._history.begin(now)
        return read

    def _lost(self, heads: dict[str, MemoryVersion], change: MemoryChange | None) -> list[str]:
        """Files of the history that are there no more."""
        only = change.path if change is not None else ""
        return [
            real
            for real, head in heads.items()
            if head.hash and only in ("", real) and self.roots.real(real) == real and not os.path.lexists(real)
        ]

    def _reindex(
        self,
        stale: list[MemoryFile],
        gone: Iterable[str],
        read: dict[str, bytes | None],
        known: dict[str, tuple[int, int, str]],
    ) -> None:
        for path in gone:
            self._index.drop(path)
        for entry in stale:
            data = read.get(entry.path)
            if data is None:
                continue
            digest = _hash(data)
            same = entry.path in known and known[entry.path][2] == digest
            self._index.put(entry.path, (entry.size, entry.mtime, digest), None if same else _text(data))

    def note(self, change: MemoryChange) -> None:
        """A tool call has ended that may have changed memory. Raises sqlite3.Error."""
        with self._lock:
            self.refresh(change)
            if not change.path:
                return
            # A search in between, or another call, may have seen the change first.
            now = self._clock.now()
            head = self._history.heads(now).get(change.path)
            if head is not None and head.kind in ("changed", "during") and head.at >= change.since:
                self._history.attribute(head.n, "written", change.author, now)

    # --- where from, and back -----------------------------------------------------------------------------------

    def versions(self, path: str) -> list[MemoryVersion]:
        """Of one file, oldest first. Raises BadRequest, NotFound, StateUnwritable."""
        real = self._meant(path)
        with self._lock, _state_errors("the memory's history cannot be used"):
            self.refresh()
            found = self._history.versions(real, self._clock.now())
        if not found:
            raise NotFound(f"nothing is known about {path}", fix="`pal memory status` lists the files")
        return found

    def trace_lines(self, path: str) -> list[TracedMemoryLine]:
        """Every line of the file as it stands, with the version it came with. Raises as `versions`."""
        found = self.versions(path)
        lines = (found[-1].text or "").splitlines()
        origins = blame_lines([version.text for version in found])
        return [
            TracedMemoryLine(n, line, found[at]) for n, (line, at) in enumerate(zip(lines, origins, strict=True), 1)
        ]

    def undo(self, path: str = "", to: int = 0, *, dry: bool = False) -> MemoryUndo:
        """Bring back the version before the last change of `path` (without: of the file that changed last), or
        version number `to`. Undoing again goes further back. Raises BadRequest, NotFound, StateUnwritable."""
        with self._lock:
            found = self.versions(path or self._latest())
            real, shown, head = found[0].path, self.roots.display_path(found[0].path), found[-1]
            target = _target(found, to, shown)
            if target is not None and target.hash and target.data is None:
                raise BadRequest(
                    f"version {target.n} of {shown} was too large to keep",
                    fix="nothing was changed; put it back from a backup (`pal backup restore`)",
                )
            before = (head.text or "") if head.hash else ""
            after = (target.text or "") if target is not None and target.hash else ""
            done = MemoryUndo(shown, target.n if target else 0, diff_versions(before, after, shown))
            if not dry:
                self._restore(real, head, target)
            return done

    def _restore(self, real: str, head: MemoryVersion, target: MemoryVersion | None) -> None:
        now = self._clock.now()
        with _state_errors("cannot bring it back"):
            if _hash(self.roots.read(real)) != head.hash:
                raise BadRequest("the file is being changed by somebody else just now", fix="try again")
            if target is None or not target.hash:
                self.roots.remove(real)
                self._history.add(MemoryVersion(0, real, now, "undone", hash="", data=None, of=_source(target)))
            else:
                self.roots.replace(real, target.data or b"")
                self._history.add(
                    MemoryVersion(0, real, now, "undone", hash=target.hash, data=target.data, of=_source(target))
                )
            self.refresh()

    def _latest(self) -> str:
        with _state_errors("the memory's history cannot be used"):
            self.refresh()
            found = self._history.latest(self._clock.now())
        if found is None:
            raise NotFound("nothing has been changed since memory is watched")
        return found

    def _meant(self, path: str) -> str:
        real = self.roots.real(path)
        if real is None:
            raise BadRequest(
                f"{path} is not a memory file", fix="MEMORY.md, memory/….md, or a file below an extra path"
            )
        return real


@contextmanager
def _state_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, zlib.error, OSError) as exc:
        raise StateUnwritable(f"{what}: {exc}") from None


def _target(found: list[MemoryVersion], to: int, shown: str) -> MemoryVersion | None:
    """The version to bring back; None for: before the first. Raises BadRequest, NotFound."""
    if to:
        chosen = next((version for version in found if version.n == to), None)
        if chosen is None:
            raise NotFound(f"{shown} has no version {to}", fix=f"`pal memory why {shown}` lists them")
        return chosen
    head = found[-1]
    start = head.of or head.n
    earlier = [version for version in found if version.n < start]
    if earlier:
        return earlier[-1]
    first = next((version for version in found if version.n == start), head)
    if head.kind == "undone" or first.kind not in ("written", "during"):
        raise BadRequest(f"nothing is known of {shown} before that", fix=f"`pal memory why {shown}` lists its versions")
    return None


def _source(version: MemoryVersion | None) -> int:
    return 0 if version is None else version.of or version.n


def _origin(entry: MemoryFile, change: MemoryChange | None) -> tuple[str, MemoryAuthor]:
    if change is None or entry.mtime // 1_000_000 < change.since:
        return "changed", MemoryAuthor()
    return _kind(change), change.author


def _kind(change: MemoryChange) -> str:
    return "written" if change.path else "during"


def _read(roots: MemoryRoots, entry: MemoryFile) -> bytes | None:
    try:
        return roots.read(entry.real)
    except OSError:
        return None


def _text(data: bytes) -> str:
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")


def _hash(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()
