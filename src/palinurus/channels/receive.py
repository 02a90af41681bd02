"""Keeping a channel's receiver running: one that breaks is begun again after a while, and stops nobody else."""

from __future__ import annotations

import logging

from palinurus.clock import Clock
from palinurus.core.types.channel import Channel, SubmitInbound

log = logging.getLogger(__name__)

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
