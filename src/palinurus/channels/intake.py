"""Handing in what a platform tells only once. Where nothing can be left unacknowledged, we ask the program again until
it takes the message; one chat that has to wait holds no other back. Knows no platform.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar

import msgspec

from palinurus.backoff import Backoff
from palinurus.channels.kit import ChannelKit
from palinurus.clock import Clock
from palinurus.core.types.channel import Channel, SubmitInbound
from palinurus.core.types.inbound import Attachment, Inbound
from palinurus.core.untrusted import clean_label
from palinurus.errors import BadRequest, PalinurusError

# Keeping a channel's receiver running: one that breaks is begun again after a while, and stops nobody else.

LONGEST_RESTART = 60.0  # seconds between two tries of a channel that fails


async def keep_receiving(source: Channel, submit: SubmitInbound, clock: Clock, what: str) -> None:
    """Until it is cancelled, or the channel itself ends. `what` names it in the log."""
    wait = 1.0
    while True:
        try:
            await source.run(submit)
            return
        except Exception:  # task boundary: logged; the rest goes on
            log.exception("%s: receiving failed; again in %g s", what, wait)
        await clock.sleep(wait)
        wait = min(wait * 2, LONGEST_RESTART)


# What belongs to one chat goes one after another, chats go side by side. Knows no platform.


class ChatOrder:
    """`turn` is a lock per key, first come, first in. A key that nobody uses is forgotten."""

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


# The files of a message: fetched when a turn comes of it, else only named. Strangers make us fetch nothing, and what
# only passes by in a group stays where it is. Knows no platform.

MAX_FILE_NAME = 80  # characters of a name that are shown


class RemoteFile(Protocol):
    """A file that is still with the platform."""

    @property
    def name(self) -> str: ...


F = TypeVar("F", bound=RemoteFile)


async def fetch_message_files(
    kit: ChannelKit, inbound: Inbound, files: Sequence[F], fetch: Callable[[F], Awaitable[Attachment | str]]
) -> Inbound:
    """The message with its files on our disk. `fetch` gives a text for one that cannot be had; that, and the names of
    files that are not wanted, are added to what was said."""
    if not files:
        return inbound
    if await _wanted(kit, inbound):
        got = [await fetch(one) for one in files]
    else:  # where a message has no words, its channel may have named the file already
        got = [shown for one in files if (shown := f"file: {clean_label(one.name, MAX_FILE_NAME)}") not in inbound.text]
    notes = (f"[{one}]" for one in got if isinstance(one, str))
    text = "\n".join(part for part in (inbound.text, *notes) if part)
    return msgspec.structs.replace(inbound, text=text, files=tuple(one for one in got if isinstance(one, Attachment)))


async def _wanted(kit: ChannelKit, inbound: Inbound) -> bool:
    """While the disk cannot be asked we wait: a guess would lose somebody's file, or fetch a stranger's."""
    backoff = Backoff()
    while True:
        try:
            return await kit.wanted(inbound)
        except PalinurusError as exc:
            log.warning("%s: the files of a message wait: %s", inbound.target.channel, exc.message)
        await kit.clock.sleep(backoff.next_delay())


log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_RETRY, LONGEST_RETRY = 0.5, 30.0  # seconds between two tries
HELD = 500  # messages of one chat that wait
OVERRUN_NOTICE = "That was more at once than I can keep. Please send the last messages again when I have answered."


async def hand_in(submit: SubmitInbound, inbound: Inbound, clock: Clock) -> str:
    """The id of the message once it is on disk; "" for one that is not let in or never can be taken (see `once`)."""
    backoff = Backoff(FIRST_RETRY, LONGEST_RETRY)
    while True:
        try:
            return await hand_in_once(submit, inbound)
        except BadRequest as exc:
            log.warning("%s: a message is left out: %s", inbound.target.channel, exc.message)
            return ""
        except PalinurusError as exc:  # full, draining: the same again
            log.warning("%s: a message waits: %s", inbound.target.channel, exc.message)
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


class ChatWorkers(Generic[T]):
    """Works on what it is given: things of one chat one after another, chats side by side. `full` is called with the
    first thing that finds no room in its chat; the chat is then left alone until all before it is done."""

    def __init__(self, take: Callable[[T], Awaitable[None]], full: Callable[[T], None], most: int = HELD) -> None:
        self._take = take
        self._full = full
        self._most = most
        self._waiting: dict[str, deque[T]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._shut: set[str] = set()

    def give(self, chat: str, one: T) -> bool:
        """Take it on, and return at once. False: there is no room."""
        waiting = self._waiting.setdefault(chat, deque())
        if chat in self._shut:
            return False
        if len(waiting) >= self._most:
            self._shut.add(chat)
            self._full(one)
            return False
        waiting.append(one)
        if chat not in self._tasks:
            self._tasks[chat] = asyncio.ensure_future(self._work(chat, waiting))
        return True

    async def _work(self, chat: str, waiting: deque[T]) -> None:
        try:
            while waiting:
                try:
                    await self._take(waiting.popleft())
                except Exception:  # task boundary: one message that breaks us must not stop the others
                    log.exception("a message could not be handed in")
        finally:
            del self._tasks[chat], self._waiting[chat]
            self._shut.discard(chat)

    async def close(self) -> None:
        """Stop; what was not handed in is forgotten."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def discard_files(files: tuple[Attachment, ...]) -> None:
    """Take away files of a message that was not let in: strangers do not fill our disk."""
    for file in files:
        await asyncio.to_thread(_gone, file.path)


def _gone(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
