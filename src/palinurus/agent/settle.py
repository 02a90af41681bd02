"""The end of a turn as one value: outcome, last transcript lines, replies, session row, ledger. Pure."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
from msgspec import UNSET

from palinurus.agent.plan.opening import STARTUP_FLAG
from palinurus.agent.plan.runplan import RunPlan
from palinurus.clock import Clock
from palinurus.core.policy.audience import OWNER_CHAT
from palinurus.core.spoken import TOLD
from palinurus.core.stream.answer import collect_visible_text, read_answer_with_tokens
from palinurus.core.stream.heartbeat import find_last_word, judge_heartbeat_reply
from palinurus.core.structured import check_answer
from palinurus.core.types.events import AgentEnd, RunEndReason
from palinurus.core.types.inbound import AnswerForm
from palinurus.core.types.messages import AssistantMessage, Message, ToolResult, UserMessage
from palinurus.core.types.outbound import Reply
from palinurus.core.types.usage import TokenUsage
from palinurus.core.untrusted import clean_label
from palinurus.errors import StateError
from palinurus.sessions.entries import CompactionEntry, MessageEntry
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import (
    InboxRow,
    OutboxRow,
    RunClaim,
    SessionRow,
    Settlement,
    StaleClaim,
    TranscriptLine,
    TurnOutcome,
    UsageRow,
)

# A heartbeat that found nothing leaves no trace in its conversation: the next turn goes on from where things stood
# before it. The file keeps its lines; the line that goes back is written in the step that ends the turn, so a crash
# leaves both or neither.

_STAY = frozenset(("sessionId", "inputTokens", "outputTokens", "cacheRead", "cacheWrite"))  # it was paid for


def forget_quiet_heartbeat(
    made: Settlement, plan: RunPlan, end: AgentEnd, session: SessionRecord, transcript: Transcript
) -> Settlement:
    """The settlement of a quiet heartbeat, with the way back; any other as it is.

    What the session was told with it, what a person wrote into it and what a compaction stands for stay.
    """
    lines = transcript.entries_of(plan.item)
    asked = [
        entry.message for entry in lines if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage)
    ]
    if not _quiet(plan, end) or len(asked) != 1 or asked[0].text.startswith(TOLD):
        return made
    if any(isinstance(entry, CompactionEntry) for entry in lines):
        return made
    before = lines[0].parentId
    assert before is not UNSET, plan.item  # lines of ours name what they follow
    back = transcript.branch_line(before, end.ended)
    return msgspec.structs.replace(made, lines=(*made.lines, *back), touch=_untouched(made, session))


def _quiet(plan: RunPlan, end: AgentEnd) -> bool:
    options = plan.inbound.options.heartbeat if plan.inbound.system else None
    if options is None or end.end not in ("stop", "length"):
        return False
    said = (m.text for m in end.messages if isinstance(m, AssistantMessage))
    media = any(read_answer_with_tokens(text, allowed=lambda name: True).found.media for text in said)
    return not media and judge_heartbeat_reply(find_last_word(end.messages), options).drop


def _untouched(made: Settlement, session: SessionRecord) -> Any:
    """The session's row looks as if nobody had been there, the use of tokens aside."""
    touch = made.touch
    if touch is None:
        return None
    fields = msgspec.json.decode(touch.data, type=dict[str, Any])
    kept = {key: value for key, value in fields.items() if key in _STAY}
    at = session.updatedAt or touch.updated
    return msgspec.structs.replace(touch, updated=at, data=msgspec.json.encode({**kept, "updatedAt": at}))


# Putting the end of a message on disk: tried until it is there, since a full disk may be emptied.

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


OUTCOMES: dict[RunEndReason, TurnOutcome] = {
    "stop": "answered",
    "length": "answered",
    "aborted": "aborted",
    "timeout": "failed",
    "max_turns": "failed",
    "tool_loop": "failed",
    "error": "failed",
}


def get_final_text(end: AgentEnd, form: AnswerForm | None = None) -> str:
    """All people saw of the turn's answer, in order; "" for a chosen silence. With a `form` the JSON alone."""
    said = [m for m in end.messages if isinstance(m, AssistantMessage)]
    if form is not None and said and (fitting := check_answer(said[-1].text, form).text):
        return fitting
    return collect_visible_text(said)


def extract_answer(end: AgentEnd | None, row: InboxRow, form: AnswerForm | None = None) -> str:
    """What the agent said in a settled turn, the same words a stream carries; with a `form` the JSON alone."""
    if row.outcome == "silent":
        return ""
    if end is None or (form is not None and row.note):
        return row.note
    return get_final_text(end) or row.note


def judge_outcome(end: AgentEnd, form: AnswerForm | None = None) -> TurnOutcome:
    """What became of the message."""
    said = OUTCOMES[end.end]
    return "silent" if said == "answered" and not get_final_text(end, form) else said


def build_settlement(
    plan: RunPlan, end: AgentEnd, session: SessionRecord, replies: tuple[Reply, ...], lines: tuple[TranscriptLine, ...]
) -> Settlement:
    """What `store.settle` needs, applied in one transaction; the recorder knows what is not in the ledger yet."""
    form = plan.inbound.options.answer
    result, note = judge_outcome(end, form), get_final_text(end, form)
    if result == "failed" and end.failure is not None:
        note = end.failure.message
    elif result == "aborted" and not note and end.failure is not None:  # the one who stopped it may be slower
        note = f"stopped ({end.failure.message})"
    return Settlement(
        result,
        note,
        lines,
        to_outgoing_rows(replies, plan.item, end.ended),
        touch=_touched(plan, end, session),
    )


def to_outgoing_rows(replies: Iterable[Reply], item: str, now: int) -> tuple[OutboxRow, ...]:
    """Replies as outbox rows, in order. A row's id is its reply's client id, so that a part can never be queued
    twice."""
    return tuple(
        OutboxRow(
            id=reply.client_id,
            item=item,
            channel=reply.target.channel,
            target=f"{reply.target.account}/{reply.target.to}/{reply.target.thread}",
            data=msgspec.json.encode(reply),
            at=now,
            seq=at,
        )
        for at, reply in enumerate(replies)
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
    if not plan.inbound.triggered:  # where the person is, and which model they use, is not a job's to change
        place = {"channel": target.channel, "lastChannel": target.channel, "lastTo": target.to}
        fields |= {**place, "lastAccountId": target.account}
        if plan.inbound.title:
            fields |= {
                "chatType": plan.inbound.kind,
                "groupId": target.to,
                "subject": clean_label(plan.inbound.title, 80),
            }
    if context:
        fields |= {"totalTokens": context, "totalTokensFresh": True}
    if plan.route.key.kind == "direct" and not plan.inbound.shared:
        fields[OWNER_CHAT] = True
    if plan.startup:
        fields[STARTUP_FLAG] = None
    if plan.route.lane == "main" and not plan.inbound.system:
        fields["lastInteractionAt"] = end.ended
    data = msgspec.json.encode(fields)
    return SessionRow(str(plan.route.key), plan.route.agent, before.sessionId, end.ended, data=data)


PRICED = "image_generate"  # the tool that asks a model itself; its result says what that took


def make_usage_row(plan: RunPlan, message: Message) -> UsageRow | None:
    """The ledger's line for one answer, or for pictures that a tool had made. Written with the answer or the result
    itself, so that dead attempts count, too. None: it used nothing."""
    if isinstance(message, ToolResult):
        return _price_result(plan, message)
    if not isinstance(message, AssistantMessage) or message.usage == TokenUsage():
        return None
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


class _Spent(msgspec.Struct, frozen=True):
    """What the tool says of it."""

    provider: str
    model: str
    input: int = 0
    output: int = 0
    cost: float | None = None


def _price_result(plan: RunPlan, result: ToolResult) -> UsageRow | None:
    told = result.details.get("spent") if result.toolName == PRICED and isinstance(result.details, dict) else None
    if told is None:
        return None
    spent = msgspec.convert(told, _Spent)
    return UsageRow(
        item=plan.item,
        run=plan.id,
        session=str(plan.route.key),
        agent=plan.route.agent,
        provider=spent.provider,
        model=spent.model,
        at=result.timestamp or plan.started,
        input=spent.input,
        output=spent.output,
        cache_read=0,
        cache_write=0,
        cost=spent.cost,
    )
