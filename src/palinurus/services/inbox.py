"""The inbox as everybody else sees it: one port, which `inbox.dispatch.Dispatcher` implements, and the one loop that
hands a message over until it is on disk. No queue, no run and no decision is here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, NamedTuple, Protocol, TypeAlias

from palinurus.clock import Clock
from palinurus.core.types.events import RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.errors import BadRequest, Draining, PalinurusError
from palinurus.store.port import Acceptance, InboxRow

log = logging.getLogger(__name__)

Sink: TypeAlias = Callable[[RunEvent], None]  # sees the events of one message's run; must be quick and must not raise
LONGEST = 60.0  # seconds between two tries


class StopReport(NamedTuple):
    """What a stop has stopped."""

    ran: bool  # there was a run, and it is no answer any more
    dropped: int = 0  # messages that waited
    children: int = 0  # sub-agents


class WaitingPort(Protocol):
    """What becomes of messages that wait for their turn."""

    async def move(self, session: str, ids: Sequence[str], /) -> list[str]:
        """Have these take each other's places, in this order. Returns all that wait. Raises StateError kinds."""
        ...

    async def hurry(self, item: str, /) -> bool:
        """Have the run that goes on read it with its next step. False: it cannot, and it waits as it did."""
        ...

    def reserve(self, session: str, /) -> AbstractAsyncContextManager[bool]:
        """As long as it is entered, no message of the session is taken in here: what comes waits. False: something
        runs or waits there already."""
        ...

    def get_place(self, session: str, item: str, /) -> Literal["", "run", "line"]:
        """Whether the run that goes on will read it, or it stands in line for a turn of its own; "": neither, here."""
        ...


class InboxPort(Protocol):
    """Put messages in, wait for their ends, stop them."""

    @property
    def draining(self) -> bool:
        """Whether it takes no new messages, because the program is stopping."""
        ...

    @property
    def waiting(self) -> WaitingPort:
        """What waits, to be changed."""
        ...

    @property
    def busy(self) -> tuple[str, ...]:
        """The sessions that have a run going."""
        ...

    async def submit(self, inbound: Inbound, sink: Sink | None = None, /) -> Acceptance:
        """Durable when it returns. Raises Draining, QueueFull, BadRequest, DiskFull."""
        ...

    async def wait(self, item: str, /) -> InboxRow:
        """The message once its outcome is on disk. Raises NotFound."""
        ...

    def running(self, session: str, /) -> bool:
        """Has the session a run going?"""
        ...

    async def stop(
        self, session: str, reason: str, /, *, item: str = "", before: str = "", children: bool = True
    ) -> StopReport:
        """Stop the run of a session, and its sub-agents; a person's stop also drops what waits. `item`: only if it is
        this message that runs or waits there, and nothing else. `before`: only what was accepted before this message.

        On disk when it returns: nothing of it comes back, or is heard of again. Raises StateError kinds.
        """
        ...

    async def stop_item(self, item: str, reason: str = "user", /) -> bool:
        """Stop one message: its run (or the run it is part of), or its waiting. False if neither. As `stop`."""
        ...


async def submit_until_stored(
    inbox: InboxPort, inbound: Inbound, clock: Clock, what: str, first: float = 1.0
) -> Acceptance | str | None:
    """Try until it is on disk. A text: it can never be, and why. None: the program is stopping.

    `what` it is about, for the log; `first`: seconds before the second try, twice as long before each further one.
    """
    wait = first
    while True:
        try:
            return await inbox.submit(inbound)
        except Draining:
            return None
        except BadRequest as exc:  # its agent is no more
            return exc.message
        except PalinurusError as exc:  # a full queue, a full disk: both pass
            log.warning("session %s gets %s later: %s", inbound.session, what, exc.message)
        await clock.sleep(wait)
        wait = min(wait * 2, LONGEST)
