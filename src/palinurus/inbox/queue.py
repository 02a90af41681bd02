"""What to do with a message whose session is busy: steer it into the run, or let it wait. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias

from palinurus.core.types.inbound import Inbound

Mode: TypeAlias = Literal["steer", "followup"]

# Channels whose sender waits for *this* message's own answer.
OWN_ANSWER: frozenset[str] = frozenset(("http",))


def mode(inbound: Inbound, running: Inbound) -> Mode:
    """Steering is the default; a request/response client gets a turn of its own, and so does a message from
    another chat than the run's: its answer must come back to where it was asked."""
    if inbound.target != running.target or inbound.push != running.push:
        return "followup"
    asked = inbound.options.get("queue")
    if asked in ("steer", "followup"):
        return "steer" if asked == "steer" else "followup"
    return "followup" if inbound.target.channel in OWN_ANSWER else "steer"
