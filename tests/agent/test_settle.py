"""What a quiet heartbeat leaves behind: the way back, and nothing that was told, steered in or condensed is lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from palinurus.agent.settle import forget_quiet_heartbeat
from palinurus.core.types.events import AgentEnd
from palinurus.core.types.inbound import HeartbeatOptions, Inbound, Sender, Target, TurnOptions
from palinurus.core.types.messages import AssistantMessage, TextBlock, UserMessage
from palinurus.core.types.usage import TokenUsage
from palinurus.sessions.entries import CompactionEntry
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import SessionRow, Settlement

HELD = {"sessionId": "s", "inputTokens": 5}
FIELDS = {**HELD, "updatedAt": 99, "totalTokens": 7, "model": "m", "startupMemory": None}


def said(text: str) -> AssistantMessage:
    return AssistantMessage((TextBlock(text),))


def ended(
    answer: str, *, asked: str = "Look.", steered: str = "", condensed: bool = False, **beat: Any
) -> tuple[list[str], Settlement]:
    """What the next turn sees after such a beat, and the settlement."""
    transcript = Transcript("t.jsonl")
    transcript.add(UserMessage("hello", 0), "i1", 0)
    transcript.add(said("hi"), "i1", 0)
    transcript.add(UserMessage(asked, 1), "i2", 1)
    if condensed:
        transcript.add_entry(CompactionEntry(summary="all", item="i2"), 1)
    if steered:
        transcript.add(UserMessage(steered, 1), "i2", 1)
    transcript.add(said(answer), "i2", 1)
    options = TurnOptions(heartbeat=beat.pop("options", HeartbeatOptions()))
    inbound = Inbound(Target("x"), Sender("h"), "e", "Look.", 1, options=options, system=beat.pop("system", True))
    plan: Any = SimpleNamespace(item="i2", inbound=inbound)
    end = AgentEnd((said(answer),), beat.pop("end", "stop"), TokenUsage(), ended=99)
    row = SessionRow("agent:main:main", "main", "s", 99, msgspec.json.encode(FIELDS))
    record = SessionRecord(sessionId="s", updatedAt=42)
    made = forget_quiet_heartbeat(Settlement("answered", touch=row), plan, end, record, transcript)
    return [message.text for message in transcript.messages()], made


def test_it_goes_back_and_leaves_the_row_as_it_was() -> None:
    seen, made = ended("HEARTBEAT_OK all dry")
    assert seen == ["hello", "hi"] and len(made.lines) == 1 and made.touch is not None
    assert msgspec.json.decode(made.touch.data) == {**HELD, "updatedAt": 42} and made.touch.updated == 42


@pytest.mark.parametrize(
    "beat",
    [
        {"answer": "The cellar is wet."},
        {"answer": "HEARTBEAT_OK", "asked": "System: The ship is in\n\nLook."},
        {"answer": "HEARTBEAT_OK", "steered": "by the way, buy milk"},
        {"answer": "HEARTBEAT_OK", "condensed": True},
        {"answer": "HEARTBEAT_OK", "end": "timeout"},
        {"answer": "HEARTBEAT_OK", "system": False},
        {"answer": "HEARTBEAT_OK", "options": None},
        {"answer": "HEARTBEAT_OK\nMEDIA:https://example.org/a.png"},
        {"answer": "HEARTBEAT_OK\nMEDIA:./chart.png"},
        {"answer": "HEARTBEAT_OK but look", "options": HeartbeatOptions(3)},
    ],
)
def test_what_said_something_stays(beat: dict[str, Any]) -> None:
    seen, made = ended(**beat)
    assert made.lines == () and made.touch is not None and made.touch.updated == 99
    assert beat["answer"] in seen[-1]


def test_what_was_said_within_the_day_goes_too() -> None:
    assert ended("Wet.", options=HeartbeatOptions(said="Wet."))[0] == ["hello", "hi"]
