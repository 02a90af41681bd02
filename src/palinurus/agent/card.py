"""Makes the card of each model call of a run (`core/types/card.py`): facts of the plan, of the try, and of what the
cache watch saw of the request. Decides nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from palinurus.agent.plan.runplan import ModelCandidate, RunPlan
from palinurus.agent.promptcache import CacheSnapshot, describe_break
from palinurus.core.types.card import CARD, CallCard, CardSection
from palinurus.core.types.messages import AssistantMessage
from palinurus.core.types.model import ModelFailure, ModelRequest
from palinurus.store.port import TraceStep

TOOLS = 200  # names of each kind that a card holds
WORDS = 160  # characters of a reason or failure


class CallTimes(msgspec.Struct, frozen=True):
    """When a try was sent (wall clock), how long it took, and how long until its first word."""

    at: int
    ms: int
    first: int | None = None


class CardMaker:
    """One per run: numbers its calls and leaves out what a call shares with the one before it."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._before: CallCard | None = None
        self._number = 0

    def make(
        self,
        request: ModelRequest,
        choice: ModelCandidate,
        answer: AssistantMessage,
        failure: ModelFailure | None,
        *,
        times: CallTimes,
        taint: tuple[str, ...],
        look: CacheSnapshot | None,
    ) -> CallCard:
        """The card of one try."""
        self._number += 1
        level, used = choice.level, answer.usage
        card = CallCard(
            self._number,
            times.at,
            str(choice.model.ref),
            choice.why or f"stands in for {self._plan.model.ref}",
            level=level.level,
            level_why=level.reason,
            level_asked=level.asked if level.remapped else "",
            fast=request.fast is True,
            tools=tuple([spec.name for spec in request.tools[:TOOLS]]),
            hidden={name: _cut(why) for name, why in list(self._plan.hidden.items())[:TOOLS]},
            messages=len(request.messages),
            taint=taint,
            input=used.input,
            output=used.output,
            cache_read=used.cacheRead,
            cache_write=used.cacheWrite,
            cost=used.cost.total if used.cost else None,
            ms=times.ms,
            first=times.first,
            stopped=answer.stopReason or "",
            failure=_cut(f"{failure.kind}: {failure.message}") if failure else "",
        )
        if look is not None:
            card = _add_look(card, look)
        made, self._before = card.without(self._before), card
        return made


def make_plain_card(answer: AssistantMessage, at: int, why: str, **known: Any) -> CallCard:
    """What an answer tells of itself, for calls that somebody else makes: `known` is what else is."""
    used = answer.usage
    card = CallCard(0, at, f"{answer.provider}/{answer.model}", why, level="off", level_why="")
    return msgspec.structs.replace(
        card,
        input=used.input,
        output=used.output,
        cache_read=used.cacheRead,
        cache_write=used.cacheWrite,
        cost=used.cost.total if used.cost else None,
        stopped=answer.stopReason or "",
        **known,
    )


def write_room_cards(answers: Sequence[AssistantMessage], plan: RunPlan) -> tuple[TraceStep, ...]:
    """Of the calls that made room in the conversation (summaries, notes): they are in the ledger, too."""
    made = [
        make_plain_card(one, one.timestamp or plan.started, "makes room in the conversation", purpose="compaction")
        for one in answers
    ]
    return tuple(TraceStep(plan.item, card.at, CARD, msgspec.json.encode(card).decode()) for card in made)


def _add_look(card: CallCard, look: CacheSnapshot) -> CallCard:
    sections = [p for p in look.pieces if p.group in ("stable", "volatile")]
    prefix = "".join([p.digest for p in look.pieces if p.group in ("tool", "stable")])
    last = look.breaks[-1] if look.breaks else None
    return msgspec.structs.replace(
        card,
        sections=tuple([CardSection(p.name, p.size, p.group == "stable") for p in sections]),
        stable=hashlib.blake2b(prefix.encode(), digest_size=8).hexdigest(),
        kept=look.kept,
        total=look.total,
        broke=_cut(describe_break(last.what)) if last is not None and last.at == look.at else "",
    )


def _cut(text: str) -> str:
    return text if len(text) <= WORDS else text[: WORDS - 1] + "…"
