"""Something the program has to tell a session: it becomes a message of that session, once, and its turn begins.

The message goes where the asker's did and with the asker's rights; what is in it is content, never a directive.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from palinurus.clock import Clock
from palinurus.core.types.inbound import NO_OPTIONS, Inbound
from palinurus.errors import BadRequest, Draining, PalinurusError
from palinurus.tools.commands.table import CommandNotice

log = logging.getLogger(__name__)

Submit = Callable[[Inbound], Awaitable[object]]

FIRST, LONGEST = 1.0, 60.0  # seconds between tries
_AFTER = (
    "A command you started in the background has ended; the process tool shows its whole output. Go on with what it "
    "was for. If there is nothing to do or to say, answer NO_REPLY."
)


class SessionWaker:
    """Implements `tools.process.table.Tell`."""

    def __init__(self, submit: Submit, clock: Clock) -> None:
        self._submit = submit
        self._clock = clock

    async def __call__(self, notice: CommandNotice) -> bool:
        """True once the message is on disk (or can never be); False when the gateway is stopping."""
        message = make_notice_message(notice, self._clock.now())
        wait = FIRST
        while True:
            try:
                await self._submit(message)
                return True
            except Draining:
                return False
            except BadRequest as exc:  # its agent is no more
                log.warning("session %s cannot be told of an ended command: %s", notice.session, exc.message)
                return True
            except PalinurusError as exc:  # a full queue, a full disk: both pass
                log.warning("session %s is told later of an ended command: %s", notice.session, exc.message)
            await self._clock.sleep(wait)
            wait = min(wait * 2, LONGEST)


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
