"""Handing in what a platform tells. Files are fetched when a turn comes of their message; what is told only once is
handed in again until the program takes it; a chat that has to wait holds no other back, and a receiver that breaks is
begun again. Knows no platform.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from palinurus.backoff import Backoff
from palinurus.channels.kit import ChannelKit
from palinurus.clock import Clock
from palinurus.config.sections.channels import ReconnectSettings
from palinurus.core.types.channel import Channel, SubmitInbound
from palinurus.core.types.inbound import Attachment, Inbound
from palinurus.core.untrusted import clean_label
from palinurus.errors import BadRequest, PalinurusError
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

T = TypeVar("T")

USUAL = ReconnectSettings()
FIRST_RETRY, LONGEST_RETRY = 0.5, 30.0  # seconds between two tries to hand in
HELD = 500  # messages of one chat that wait
MAX_FILE_NAME = 80  # characters of a name that are shown
FETCHES = 3  # tries to get a file


async def keep_receiving(
    source: Channel, submit: SubmitInbound, clock: Clock, what: str, *, rules: ReconnectSettings = USUAL
) -> None:
    """Until it is cancelled, or the channel itself ends. One that breaks is begun again after a while, and stops
    nobody else. `what` names it in the log."""
    failures = 0
    while True:
        begun = clock.monotonic()
        try:
            await source.run(submit)
            return
        except Exception:  # task boundary: logged; the rest goes on
            failures = 1 if clock.monotonic() - begun > rules.most else failures + 1  # 1: it ran well meanwhile
            wait = rules.wait(failures, random.random())
            if wait is None:
                log.exception("%s: receiving failed %d times; it is left alone", what, failures)
                return
            log.exception("%s: receiving failed; again in %g s", what, wait)
        await clock.sleep(wait)


class RemoteFile(NamedTuple):
    """A file of a message that is still with the platform. `source` is what it is fetched by: an id, an address, a
    handle of the client; or its bytes, where the message brought them. `size` is 0 where the platform does not say."""

    name: str
    mime: str
    source: Any
    size: int = 0
    voice: bool = False


class InboundWithFiles(msgspec.Struct, frozen=True):
    """A message, and its files as far as they are not fetched."""

    inbound: Inbound
    files: tuple[RemoteFile, ...] = ()


class FileUnavailable(Exception):
    """A file cannot be had. The text follows its name and is for people. `again`: another try may help; `retry_after`
    says when, in seconds."""

    def __init__(self, why: str, again: bool = False, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.again = again
        self.retry_after = retry_after


# The bytes of a file, piece by piece. Raises FileUnavailable.
FetchFile: TypeAlias = Callable[[RemoteFile], AsyncGenerator[bytes, None]]


async def read_brought_file(file: RemoteFile) -> AsyncGenerator[bytes, None]:
    """Implements `FetchFile` for files that came with their message."""
    yield file.source


async def fetch_message_files(
    kit: ChannelKit, inbound: Inbound, files: Sequence[RemoteFile], fetch: FetchFile
) -> Inbound:
    """The message with its files on our disk. Why one cannot be had, and the names of files that are not wanted, are
    added to what was said. Strangers make us fetch nothing, and what only passes by in a group stays where it is."""
    if not files:
        return inbound
    # While the disk cannot be asked we wait: a guess would lose somebody's file, or fetch a stranger's.
    if await _patiently(lambda: kit.wanted(inbound), kit.clock, f"{inbound.target.channel}: a message with files"):
        got = [await _fetch_one(kit, file, fetch) for file in files]
    else:  # where a message has no words, its channel may have named the file already
        got = [shown for one in files if (shown := f"file: {clean_label(one.name, MAX_FILE_NAME)}") not in inbound.text]
    notes = (f"[{one}]" for one in got if isinstance(one, str))
    text = "\n".join(part for part in (inbound.text, *notes) if part)
    return msgspec.structs.replace(inbound, text=text, files=tuple(one for one in got if isinstance(one, Attachment)))


async def _fetch_one(kit: ChannelKit, file: RemoteFile, fetch: FetchFile) -> Attachment | str:
    name, most, backoff = file.name[:MAX_FILE_NAME], kit.settings.media, Backoff()
    if file.size > most:
        return f"{name} is larger than {most // (1024 * 1024)} MB (mediaMaxMb) and was not taken"
    for left in reversed(range(FETCHES)):
        try:
            async with aclosing(fetch(file)) as chunks:
                saved = await kit.media.save(file.name, file.mime, chunks)
            return msgspec.structs.replace(saved, voice=file.voice) if isinstance(saved, Attachment) else saved
        except FileUnavailable as exc:
            cause = type(exc.__cause__ or exc).__name__
            log.warning("%s: file %s: %s (%s)", kit.settings.channel, name, exc, cause)
            if not exc.again or not left:
                return f"{name} {exc}"
            await kit.clock.sleep(exc.retry_after or backoff.next_delay())
    raise AssertionError("the last try returns")


async def hand_in(submit: SubmitInbound, inbound: Inbound, clock: Clock) -> str:
    """The id of the message once it is on disk; "" for one that is not let in or never can be taken."""

    async def once() -> str:
        try:
            return await hand_in_once(submit, inbound)
        except BadRequest as exc:
            log.warning("%s: a message is left out: %s", inbound.target.channel, exc.message)
            return ""

    return await _patiently(once, clock, f"{inbound.target.channel}: a message")


async def _patiently(call: Callable[[], Awaitable[T]], clock: Clock, what: str) -> T:
    """What the call gives, however long the program is full, draining or without a disk."""
    backoff = Backoff(FIRST_RETRY, LONGEST_RETRY)
    while True:
        try:
            return await call()
        except PalinurusError as exc:
            log.warning("%s waits: %s", what, exc.message)
        await clock.sleep(backoff.next_delay())


async def hand_in_once(submit: SubmitInbound, inbound: Inbound) -> str:
    """What `submit` gives or raises. Files of a message that is not let in, or never can be taken, are removed."""
    try:
        ident = await submit(inbound)
    except BadRequest:
        await discard_files(inbound.files)
        raise
    if not ident:
        await discard_files(inbound.files)
    return ident


async def discard_files(files: tuple[Attachment, ...]) -> None:
    """Take away files of a message that was not let in: strangers do not fill our disk."""
    for file in files:
        with contextlib.suppress(OSError):
            await asyncio.to_thread(os.unlink, file.path)


class ChatOrder:
    """What belongs to one chat goes one after another, chats go side by side: `turn` is a lock per key, first come,
    first in. A key that nobody uses is forgotten."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        """How many keys are in use."""
        return len(self._locks)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Inside, nobody else with this key is."""
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(key)
            if users > 1:
                self._locks[key] = (lock, users - 1)


class ChatWorkers(Generic[T]):
    """Works on what it is given: things of one chat one after another, chats side by side. `full` is called with the
    first thing that finds no room in its chat; the chat is then left alone until all before it is done."""

    def __init__(self, take: Callable[[T], Awaitable[None]], full: Callable[[T], None], most: int = HELD) -> None:
        self._take = take
        self._full = full
        self._most = most
        self._waiting: dict[str, deque[T]] = {}  # of each chat that is worked on
        self._shut: set[str] = set()
        self._tasks = TaskSet("taking messages in")

    def give(self, chat: str, one: T) -> bool:
        """Take it on, and return at once. False: there is no room."""
        if chat in self._shut:
            return False
        if chat not in self._waiting:
            self._waiting[chat] = deque()
            self._tasks.start(self._work(chat, self._waiting[chat]))
        if len(self._waiting[chat]) >= self._most:
            self._shut.add(chat)
            self._full(one)
            return False
        self._waiting[chat].append(one)
        return True

    async def _work(self, chat: str, waiting: deque[T]) -> None:
        try:
            while waiting:
                try:
                    await self._take(waiting.popleft())
                except Exception:  # task boundary: one message that breaks us must not stop the others
                    log.exception("a message could not be handed in")
        finally:
            del self._waiting[chat]
            self._shut.discard(chat)

    async def close(self) -> None:
        """Stop; what was not handed in is forgotten."""
        await self._tasks.close()
        self._waiting.clear()
        self._shut.clear()
