"""The end of a claim that no turn has ended: dropped, stopped before it began, or its turn broke.

Its outcome is on disk when `end` returns; who asked is told through the outbox if `tell` says so.
"""

from __future__ import annotations

from collections.abc import Callable

from palinurus.agent.ending import settle_until_stored
from palinurus.agent.settle import to_outgoing
from palinurus.clock import Clock
from palinurus.core.types.events import AgentEnd
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.model import FailureKind, ModelFailure
from palinurus.core.types.outbound import Reply
from palinurus.core.types.usage import TokenUsage
from palinurus.store.port import RunClaim, Settlement, Store, TurnOutcome

ReplyListener = Callable[[tuple[Reply, ...]], None]


class ClaimFinisher:
    def __init__(self, store: Store, clock: Clock, replied: ReplyListener) -> None:
        self._store = store
        self._clock = clock
        self._replied = replied
        self.stopped = False  # no more tries: the next start finds the claim as it is

    async def end(
        self, claim: RunClaim, inbound: Inbound, outcome: TurnOutcome, note: str, *, tell: bool
    ) -> AgentEnd | None:
        """Settle; tries until it is on disk. None if the claim had ended already, or the gateway stops first."""
        now = self._clock.now()
        replies: tuple[Reply, ...] = ()
        if tell and inbound.push:
            text = f"⚠️ {note[:1].upper()}{note[1:]}."
            replies = (Reply(inbound.target, text, f"{claim.id}.end", "notice", inbound.reply_to),)
        rows = tuple(to_outgoing(reply, claim.id, at, now) for at, reply in enumerate(replies))
        settlement = Settlement(outcome, note, (), rows)
        if self.stopped or not await settle_until_stored(
            claim, lambda: self._store.settle(claim, settlement), self._clock, lambda: self.stopped
        ):
            return None
        if replies:
            self._replied(replies)
        kind: FailureKind = "aborted" if outcome == "aborted" else "refused"
        return AgentEnd((), "aborted" if outcome == "aborted" else "error", TokenUsage(), ModelFailure(kind, note), now)
