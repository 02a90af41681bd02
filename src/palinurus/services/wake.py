"""Something the program has to tell a session: it becomes a message of that session, once, and its turn begins.

The message goes where the asker's did and with the asker's rights; what is in it is content, never a directive.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Container

import msgspec
from msgspec.structs import replace

from palinurus.clock import Clock
from palinurus.core.types.inbound import NO_OPTIONS, Inbound, Target
from palinurus.crashpoints import pass_crashpoint
from palinurus.services.inbox import InboxPort, submit_until_stored
from palinurus.store.records import Records, RecordStore
from palinurus.tools.commands.table import CommandNotice

log = logging.getLogger(__name__)

_AFTER = (
    "A command you started in the background has ended; the process tool shows its whole output. Go on with what it "
    "was for. If there is nothing to do or to say, answer NO_REPLY."
)


class SessionWaker:
    """Implements what `CommandTable` tells of ended commands."""

    def __init__(self, inbox: InboxPort, clock: Clock) -> None:
        self._inbox = inbox
        self._clock = clock

    async def __call__(self, notice: CommandNotice) -> bool:
        """True once the message is on disk (or can never be); False when the gateway is stopping."""
        message = make_notice_message(notice, self._clock.now())
        done = await submit_until_stored(self._inbox, message, self._clock, "word of an ended command")
        if isinstance(done, str):
            log.warning("session %s cannot be told of an ended command: %s", notice.session, done)
        return done is not None


def make_notice_message(notice: CommandNotice, now: int) -> Inbound:
    """The message. Its event id comes from the notice's key: told twice, it is one message."""
    return replace(
        notice.asker,
        event=f"exec:{notice.key}",
        text=f"System: {notice.text}\n\n{_AFTER}",
        at=now,
        images=(),
        reply_to="",
        session=notice.session,
        agent=notice.agent,
        options=NO_OPTIONS,
        system=True,
        source=notice.asker.origin or "command",
    )


# Restarts that were asked for in a chat: who is told when it is done.


class AskedRestart(msgspec.Struct, frozen=True):
    """`quiet`: nobody is told, the client sees it itself. `told`: it was said."""

    target: Target
    quiet: bool = False
    told: bool = False


def open_restarts(store: RecordStore) -> Records[AskedRestart]:
    """By the message that asked."""
    return Records(store, "restart", AskedRestart)


async def tell_restarted(
    store: RecordStore, say: Callable[[Target, str, str], Awaitable[None]], channels: Container[str]
) -> None:
    """Say once that we are back. Killed before it is noted, the same message goes out once all the same (its id). What
    was told stays until the next restart: the command that asked may be run again. Raises StateError kinds."""
    records = open_restarts(store)
    for item, asked in (await records.all()).items():
        if asked.told:
            await records.drop(item)
            continue
        if not asked.quiet and asked.target.channel in channels:
            await say(asked.target, "I am back.", f"restart:{item}")
        pass_crashpoint("restart.said")
        await records.put(item, replace(asked, told=True))
