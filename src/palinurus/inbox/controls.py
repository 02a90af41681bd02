"""Control messages (commands, stop words) on their own lane: they never wait behind the session's run.

Of one session they are done in order, but a slow one (it may wait for a whole run) holds the next one up only for
a moment. Knows where they queue; what they do is the controller's.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

from palinurus.abort import Abort
from palinurus.agent.turn import Audience
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.inbox.policy import QueuePolicy
from palinurus.store.port import InboxItem, RunClaim

CONTROL_LANE = "control"
AT_ONCE = 16
PATIENCE = 0.25  # seconds
RULES = QueuePolicy("followup", 0.0, 50, "new")


class ControllerPort(Protocol):
    """See `inbox/control.py`."""

    def control(self, inbound: Inbound) -> bool:
        """Is it one? Asked for every message: must be quick."""
        ...

    async def turn(
        self, claim: RunClaim, inbound: Inbound, key: SessionKey, audience: Audience, abort: Abort | None = None
    ) -> None:
        """Do it and settle the claim."""
        ...


def to_control_item(item: InboxItem, busy: bool) -> InboxItem:
    """The row as a control message: `control:KEY`, or while that is busy a queue of its own, `control/ID:KEY`."""
    head = f"{CONTROL_LANE}/{item.id}" if busy else CONTROL_LANE
    return msgspec.structs.replace(item, session=f"{head}:{item.session}", lane=CONTROL_LANE)


def find_key(claim: RunClaim) -> SessionKey | None:
    """The session a control message is about."""
    return parse_session_key(claim.session.partition(":")[2])


class ControlLane:
    def __init__(self, controller: ControllerPort | None) -> None:
        self._controller = controller
        self._last: dict[str, asyncio.Future[None]] = {}

    def control(self, inbound: Inbound) -> bool:
        return self._controller is not None and self._controller.control(inbound)

    async def turn(self, claim: RunClaim, inbound: Inbound, audience: Audience, abort: Abort) -> None:
        """Do it, after the one before it if that is quick."""
        key = find_key(claim)
        assert key is not None and self._controller is not None, claim.session
        name, done = str(key), asyncio.get_running_loop().create_future()
        before, self._last[name] = self._last.get(name), done
        try:
            if before is not None:
                await asyncio.wait((before,), timeout=PATIENCE)
            await self._controller.turn(claim, inbound, key, audience, abort)
        finally:
            done.set_result(None)
            if self._last.get(name) is done:
                del self._last[name]
