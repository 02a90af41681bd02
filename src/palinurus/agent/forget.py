"""A heartbeat that found nothing leaves no trace in its conversation: the next turn goes on from where things stood
before it. The file keeps its lines; the line that goes back is written in the step that ends the turn, so a crash
leaves both or neither.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from palinurus.agent.plan import RunPlan
from palinurus.core.stream.alert import HEARTBEAT_OPTION, find_last_word, judge_heartbeat_reply
from palinurus.core.stream.answer import read_answer_with_tokens
from palinurus.core.types.events import AgentEnd
from palinurus.core.types.messages import AssistantMessage, UserMessage
from palinurus.sessions.entries import CompactionEntry, MessageEntry
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import Settlement

TOLD = "System: "  # how a message begins that something was told with
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
    before = lines[0].parentId
    if before is UNSET or any(isinstance(entry, CompactionEntry) for entry in lines):
        return made
    back = transcript.branch_line(before, end.ended)
    return msgspec.structs.replace(made, lines=(*made.lines, *back), touch=_untouched(made, session))


def _quiet(plan: RunPlan, end: AgentEnd) -> bool:
    options = plan.inbound.options.get(HEARTBEAT_OPTION) if plan.inbound.system else None
    if not isinstance(options, dict) or end.end not in ("stop", "length"):
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
