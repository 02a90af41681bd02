"""Putting the end of a message on disk: tried until it is there, since a full disk may be emptied."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from palinurus.clock import Clock
from palinurus.errors import StateError
from palinurus.store.port import RunClaim, StaleClaim

log = logging.getLogger(__name__)

FIRST, MOST = 0.5, 30.0  # seconds between tries: the first pause, and what the doubling stops at


async def settle_until_stored(
    claim: RunClaim, write: Callable[[], Awaitable[None]], clock: Clock, stopping: Callable[[], bool] = lambda: False
) -> bool:
    """True once `write` has settled the claim. False if somebody else has ended it, or the gateway stops first: then
    the next start finds the claim as it is."""
    wait = FIRST
    while True:
        try:
            await write()
        except StaleClaim:
            return False
        except StateError as exc:
            log.error("message %s: cannot settle (%s); trying again in %g s", claim.id, exc.message, wait)
            if stopping():
                return False
            await clock.sleep(wait)
            wait = min(wait * 2, MOST)
        else:
            return True
