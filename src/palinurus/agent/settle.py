"""The end of a turn as one value: outcome, last transcript lines, replies, session row, ledger. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.agent.plan import RunPlan
from palinurus.agent.startup import STARTUP_FLAG
from palinurus.agent.trigger import is_triggered
from palinurus.core.stream.answer import collect_visible_text
from palinurus.core.types.events import AgentEnd, RunEndReason
from palinurus.core.types.messages import AssistantMessage
from palinurus.core.types.outbound import Reply
from palinurus.core.types.usage import TokenUsage
from palinurus.core.untrusted import clean_label
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import OutboxRow, SessionRow, Settlement, TranscriptLine, TurnOutcome, UsageRow

OUTCOMES: dict[RunEndReason, TurnOutcome] = {
    "stop": "answered",
    "length": "answered",
    "aborted": "aborted",
    "timeout": "failed",
    "max_turns": "failed",
    "tool_loop": "failed",
    "error": "failed",
}


def get_final_text(end: AgentEnd) -> str:
    """All people saw of the turn's answer, in order; "" for a chosen silence."""
    return collect_visible_text([m for m in end.messages if isinstance(m, AssistantMessage)])


def judge_outcome(end: AgentEnd) -> TurnOutcome:
    """What became of the message."""
    said = OUTCOMES[end.end]
    return "silent" if said == "answered" and not get_final_text(end) else said


def build_settlement(
    plan: RunPlan, end: AgentEnd, session: SessionRecord, replies: tuple[Reply, ...], lines: tuple[TranscriptLine, ...]
) -> Settlement:
    """Everything `store.settle` needs, applied in one transaction."""
    result = judge_outcome(end)
    note = get_final_text(end)
    if result == "failed" and end.failure is not None:
        note = end.failure.message
    return Settlement(
        result,
        note,
        lines,
        tuple(to_outgoing(reply, plan.item, at, end.ended) for at, reply in enumerate(replies)),
        None,
        _touched(plan, end, session),
        tuple(_spent(plan, m) for m in end.messages if isinstance(m, AssistantMessage) and m.usage != TokenUsage()),
    )


def to_outgoing(reply: Reply, item: str, at: int, now: int) -> OutboxRow:
    """A reply as an outbox row; its id is its client id, so that a part can never be queued twice."""
    target = reply.target
    return OutboxRow(
        id=reply.client_id,
        item=item,
        channel=target.channel,
        target=f"{target.account}/{target.to}/{target.thread}",
        data=msgspec.json.encode(reply),
        at=now,
        seq=at,
    )


def _touched(plan: RunPlan, end: AgentEnd, before: SessionRecord) -> SessionRow:
    """What the run knows about its session. The rest of the row is other people's: it may have changed meanwhile."""
    target = plan.inbound.target
    last = next((m for m in reversed(end.messages) if isinstance(m, AssistantMessage)), None)
    context = last.usage.input + last.usage.cacheRead + last.usage.cacheWrite + last.usage.output if last else 0
    fields: dict[str, Any] = {
        "sessionId": before.sessionId,
        "updatedAt": end.ended,
        "modelProvider": plan.model.ref.provider,
        "model": plan.model.ref.model,
        "contextTokens": plan.model.context_window,
        "inputTokens": (before.inputTokens or 0) + end.usage.input,
        "outputTokens": (before.outputTokens or 0) + end.usage.output,
        "cacheRead": (before.cacheRead or 0) + end.usage.cacheRead,
        "cacheWrite": (before.cacheWrite or 0) + end.usage.cacheWrite,
        "abortedLastRun": end.end == "aborted",
        "systemSent": True,
    }
    if not is_triggered(plan.inbound):  # where the person is, and which model they use, is not a job's to change
        place = {"channel": target.channel, "lastChannel": target.channel, "lastTo": target.to}
        fields |= {**place, "lastAccountId": target.account}
        if plan.inbound.title:
            fields |= {
                "chatType": plan.inbound.kind,
                "groupId": target.to,
                "subject": clean_label(plan.inbound.title, 80),
            }
    if context:
        fields["totalTokens"] = context
    if plan.startup:
        fields[STARTUP_FLAG] = None
    if plan.route.lane == "main" and not plan.inbound.system:
        fields["lastInteractionAt"] = end.ended
    data = msgspec.json.encode(fields)
    return SessionRow(str(plan.route.key), plan.route.agent, before.sessionId, end.ended, data)


def _spent(plan: RunPlan, message: AssistantMessage) -> UsageRow:
    return UsageRow(
        item=plan.item,
        run=plan.id,
        session=str(plan.route.key),
        agent=plan.route.agent,
        provider=message.provider or plan.model.ref.provider,
        model=message.model or plan.model.ref.model,
        at=message.timestamp or plan.started,
        input=message.usage.input,
        output=message.usage.output,
        cache_read=message.usage.cacheRead,
        cache_write=message.usage.cacheWrite,
        cost=message.usage.cost.total if message.usage.cost else None,
    )
