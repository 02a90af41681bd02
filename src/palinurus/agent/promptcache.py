"""Keeps an eye on the prompt cache: every request is compared with the session's last one.

What was found lies in `home/cache/<session id>.look`, 0600, for `pal why cache`: a line of JSON (hashes, sizes, the
last breaks), then the prompt last sent. One file, because making one is the price (docs/decisions/0172). A diagnosis,
not state: replaced whole, never synced. A kill loses at most the newest look, and a disk that refuses it stops nothing.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from palinurus.agent.fingerprint import (
    CHARS,
    CacheBreak,
    PieceKey,
    RequestPiece,
    RequestSnapshot,
    count_kept_bytes,
    find_cache_break,
)
from palinurus.clock import Clock
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import Model, ModelEvent, ModelRequest, Prompt, StopSignal
from palinurus.store.port import InboxRow, UsageRow

# What the cache diagnosis means, in words: a verdict on a session's last request, and the message a break came with.
#
# Told to people by `pal why` and the gateway. Reads nothing itself.

SHORT = 300_000  # ms: how long providers keep a prefix at least, as a rule
FIXES = {
    "model": "a cache belongs to one model; switching models pays for the whole history once",
    "tools": "tools come first in every request: a list that changes between turns costs everything after it",
    "prompt": "the stable part changed: an edited workspace file, another skill, another setting",
    "chat": "the part below the boundary follows channel, thinking level and HEARTBEAT.md",
    "compaction": "expected: the history was shortened to fit",
    "history limit": "expected with a history limit: each turn drops the oldest one",
    "history": "messages that were already sent were changed, pruned or taken back",
}


def explain_last_request(look: CacheSnapshot | None, calls: Sequence[UsageRow]) -> str:
    """One sentence: what happened with the last request."""
    if look is None:
        return "No request of this session has been looked at yet."
    if look.requests < 2:
        return "This session has made one request: there was nothing to reuse yet."
    last = look.breaks[-1] if look.breaks else None
    if last is not None and last.at == look.at:
        return f"The last request broke the prefix. {FIXES[last.what.cause].capitalize()}."
    counted = calls[-1] if calls else None
    if counted is None or counted.cache_read or counted.cache_write:
        return "The last request began exactly as the one before it."
    if look.idle > SHORT:
        return (
            f"The prefix was unchanged, but the provider read nothing from its cache: the request before was "
            f"{look.idle // 60_000} minutes older, and it has probably been dropped meanwhile (params.cacheRetention)."
        )
    return (
        "The prefix was unchanged, but the provider reports no cache use: it has no cache, does not tell, or the "
        f"prompt ({look.total // CHARS} tokens) is shorter than it takes."
    )


def find_breaking_message(found: CacheBreakRecord, items: list[InboxRow]) -> str:
    """The message in whose run the break came; "" if it is not on file any more."""
    return next(
        (i.id for i in items if i.claimed and i.claimed <= found.at and (not i.settled or found.at <= i.settled)), ""
    )


log = logging.getLogger(__name__)

FOLDER = "cache"
BREAKS = 16  # remembered per session
FILES = 400  # sessions remembered on disk,
SLACK = 40  # and so many more before the oldest are looked for
_PROMPT = ("stable", "volatile")


class CacheBreakRecord(msgspec.Struct, frozen=True):
    """A break, and when it came."""

    at: int
    what: CacheBreak


class CacheSnapshot(msgspec.Struct, frozen=True):
    """One session as the file has it: its last request, in bytes; `idle` is how long before it the other one was."""

    model: str
    at: int
    kept: int
    total: int
    idle: int = 0
    requests: int = 1
    pieces: tuple[RequestPiece, ...] = ()
    breaks: tuple[CacheBreakRecord, ...] = ()


class WatchedModel:
    """A Model that is watched: what it is asked is looked at first."""

    def __init__(self, model: Model, watch: CacheWatch, clock: Clock) -> None:
        self._model = model
        self._watch = watch
        self._clock = clock

    def stream(self, request: ModelRequest, stop: StopSignal) -> AsyncIterator[ModelEvent]:
        """As the model itself."""
        if request.session:
            self._watch.look(request, self._clock.now())
        return self._model.stream(request, stop)


class CacheWatch:
    """One per program. `look` at each request before it is sent.

    `defer` takes the writing of files and has it done a moment later, elsewhere; without it files are written at once.
    """

    def __init__(self, home: str, most: int = 64, defer: Callable[[Callable[[], None]], object] | None = None) -> None:
        self._folder = os.path.join(home, FOLDER)
        self._most = most
        self._defer = defer
        self._latest: RequestSnapshot | None = None
        self._dirty: dict[str, tuple[CacheSnapshot, Prompt]] = {}
        self._going: dict[str, tuple[CacheSnapshot, Prompt]] = {}  # being written: not on file yet
        self._writing = threading.Lock()
        self._sessions: OrderedDict[str, tuple[RequestSnapshot, CacheSnapshot | None]] = OrderedDict()

    def look(self, request: ModelRequest, now: int) -> CacheBreak | None:
        """Remember the request as its session's last. Returns what it broke of the one before."""
        old, last = self._seen(request.session)
        new = self._latest = old.after(request, self._latest)
        found = find_cache_break(old, new) if last is not None else None
        breaks = last.breaks if last else ()
        look = CacheSnapshot(
            model=new.print.model,
            at=now,
            kept=found.kept if found else count_kept_bytes(old.print, new.print),
            total=new.print.size,
            idle=now - last.at if last else 0,
            requests=last.requests + 1 if last else 1,
            pieces=new.print.pieces,
            breaks=breaks if found is None else (*breaks, CacheBreakRecord(now, found))[-BREAKS:],
        )
        self._sessions[request.session] = (new, look)
        # Between the tool calls of a turn nothing is written unless something broke.
        if found is not None or (request.messages and isinstance(request.messages[-1], UserMessage)):
            self._save(request.session, look, request.prompt)
        return found

    def last(self, session: str) -> CacheSnapshot | None:
        """What is known of a session's last request (by its id)."""
        seen, waiting = self._sessions.get(session), self._waiting(session)
        if seen is not None:
            return seen[1]
        return waiting[0] if waiting is not None else load_cache_snapshot(self._folder, session)

    def _waiting(self, session: str) -> tuple[CacheSnapshot, Prompt] | None:
        return self._dirty.get(session) or self._going.get(session)

    def _seen(self, session: str) -> tuple[RequestSnapshot, CacheSnapshot | None]:
        seen = self._sessions.get(session)
        if seen is None:
            waiting = self._waiting(session)
            look, text = _read(self._folder, session) if waiting is None else (waiting[0], _encode(waiting[1]))
            known = RequestSnapshot(look.model, look.pieces, _cut(text, look.pieces)) if look else RequestSnapshot()
            seen = self._sessions[session] = (known, look)
        self._sessions.move_to_end(session)
        while len(self._sessions) > self._most:
            self._sessions.popitem(last=False)
        return seen

    def _save(self, session: str, look: CacheSnapshot, prompt: Prompt) -> None:
        idle = not self._dirty
        self._dirty[session] = (look, prompt)
        if self._defer is None:
            self.flush()
        elif idle:
            self._defer(self.flush)

    def flush(self) -> None:
        """Write what waits. May run in another thread, and in several."""
        with self._writing:
            self._going = dirty = self._dirty
            self._dirty = {}
            if not dirty:  # also after the end, when the home may be gone
                return
            try:
                os.makedirs(self._folder, mode=0o700, exist_ok=True)
                last, text = Prompt(""), b""
                for session, (look, prompt) in dirty.items():
                    text = text if prompt is last else _encode(prompt)
                    last = prompt
                    _replace(_path(self._folder, session), msgspec.json.encode(look) + b"\n" + text)
                _thin(self._folder)
            except OSError as exc:
                log.warning("the cache diagnosis of %d sessions was not written: %s", len(dirty), exc.strerror)
            self._going = {}


def load_cache_snapshot(folder: str, session: str) -> CacheSnapshot | None:
    """What is on file about a session (by its id), None if nothing readable is."""
    return _read(folder, session)[0]


def format_share(part: int, whole: int) -> str:
    """`97 % of 12345 tokens`"""
    return f"{100 * part // max(1, whole)} % of {whole // CHARS} tokens"


def describe_break(found: CacheBreak) -> str:
    """A break in one line."""
    return f"{locate_break(found)}: {found.note}; {format_share(found.kept, found.total)} kept"


def locate_break(found: CacheBreak) -> str:
    """Where, for people."""
    if found.cause == "model":
        return "the model was switched"
    where = {
        "tool": f"tool {found.name}, byte {found.offset} of the tools",
        "stable": f"prompt section {found.name}, byte {found.offset} of the stable part",
        "volatile": f"prompt section {found.name}, byte {found.offset} of the part below the cache boundary",
        "message": f"message {found.name}, byte {found.offset} of it",
    }
    return f"{found.cause}: {where[found.group]}"


def _encode(prompt: Prompt) -> bytes:
    """Its sections one after the other, as `split_sections` cuts them: all of both halves."""
    return (prompt.stable + prompt.volatile).encode("utf-8", "replace")


def _read(folder: str, session: str) -> tuple[CacheSnapshot | None, bytes]:
    """What is on file, and the prompt."""
    try:
        with open(_path(folder, session), "rb") as handle:
            line, _, text = handle.read().partition(b"\n")
            return msgspec.json.decode(line, type=CacheSnapshot), text
    except (OSError, ValueError):
        return None, b""


def _cut(data: bytes, pieces: tuple[RequestPiece, ...]) -> dict[PieceKey, bytes]:
    """The prompt cut into its sections by their sizes; {} if it is not the one the pieces describe."""
    parts = [piece for piece in pieces if piece.group in _PROMPT]
    if sum(piece.size for piece in parts) != len(data):
        return {}
    found: dict[PieceKey, bytes] = {}
    at = 0
    for piece in parts:
        found[piece.group, piece.name] = data[at : at + piece.size]
        at += piece.size
    return found


def _path(folder: str, session: str) -> str:
    return f"{folder}/{session}.look"


def _replace(path: str, data: bytes) -> None:
    part = f"{path}.new"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
    os.rename(part, path)


def _thin(folder: str) -> None:
    """Forget the sessions that were looked at longest ago, and what older versions wrote."""
    names = os.listdir(folder)
    gone = [f"{folder}/{name}" for name in names if name.endswith((".json", ".txt"))]
    looks = [f"{folder}/{name}" for name in names if name.endswith(".look")]
    if len(looks) > FILES + SLACK:
        ages = sorted((os.stat(path).st_mtime, path) for path in looks)
        gone += [path for _, path in ages[: len(ages) - FILES]]
    for path in gone:
        os.unlink(path)
