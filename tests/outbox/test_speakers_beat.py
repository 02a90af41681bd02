"""What people see of a heartbeat."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.core.stream.heartbeat import find_last_word
from palinurus.core.types.events import AgentEnd, MessageEnd, ToolStart
from palinurus.core.types.inbound import HeartbeatOptions
from palinurus.core.types.messages import AssistantMessage, TextBlock, ThinkingBlock
from palinurus.core.types.outbound import Reply, RunVisibility
from palinurus.core.types.usage import TokenUsage
from palinurus.outbox.blocks import BlockSpeaker
from palinurus.outbox.speakers import HeartbeatSpeaker
from support import inbound


def seen(*texts: str, thinking: str = "", end: str = "stop", **options: Any) -> list[tuple[str, str]]:
    messages = tuple(
        AssistantMessage((*((ThinkingBlock(thinking),) if thinking else ()), TextBlock(text))) for text in texts
    )
    ok = Reply(inbound().target, "HEARTBEAT_OK", "i.ok")
    speaker = HeartbeatSpeaker(
        BlockSpeaker(inbound(), "i", lambda: RunVisibility("on", "on")), HeartbeatOptions(**options), ok
    )
    early = [*speaker.feed(ToolStart("1", "ls", {}))]
    for message in messages:
        early += speaker.feed(MessageEnd(message))
    early += speaker.feed(AgentEnd(messages, end, TokenUsage()))  # type: ignore[arg-type]
    assert early == []
    return [(r.kind, r.text) for r in speaker.close()]


@pytest.mark.seed(126)
def test_only_the_last_word() -> None:
    assert seen("Looking.", "It is wet.") == [("final", "It is wet.")]


@pytest.mark.seed(127)
def test_reasoning_only_where_it_is_asked_for() -> None:
    assert seen("Wet.", thinking="hm") == [("final", "Wet.")]
    assert seen("Wet.", thinking="hm", reasoning=True) == [("reasoning", "Thinking\nhm"), ("final", "Wet.")]


def test_acknowledgements_and_repeats_are_sent_to_nobody_and_failures_are_told() -> None:
    assert seen("**HEARTBEAT_OK**") == [] and seen("HEARTBEAT_OK all is well") == []
    assert seen("HEARTBEAT_OKAY then") == [("final", "HEARTBEAT_OKAY then")]
    assert seen("HEARTBEAT_OK but look", ack_max_chars=3) == [("final", "but look")]
    assert seen("Wet.", said="Wet.") == [] and seen("Wet.", said="Dry.") == [("final", "Wet.")]
    assert [kind for kind, _ in seen(end="timeout")] == ["notice"]
    assert find_last_word(()) == ""


@pytest.mark.parametrize("text", ["<think>hm</think>HEARTBEAT_OK", "<final>HEARTBEAT_OK all dry</final>", "NO_REPLY"])
def test_an_acknowledgement_is_one_also_where_more_stands_around_it(text: str) -> None:
    assert seen(text) == []


def test_what_people_want_to_see_of_it() -> None:
    fine = [("final", "HEARTBEAT_OK")]
    assert seen("HEARTBEAT_OK", ok=True) == seen("HEARTBEAT_OK all dry", ok=True) == fine
    assert seen("Wet.", ok=True, said="Wet.") == [] and seen("Wet.", ok=True) == [("final", "Wet.")]
    assert seen("Wet.", alerts=False) == [] and seen("HEARTBEAT_OK", ok=True, alerts=False) == fine
    assert [kind for kind, _ in seen(end="timeout", ok=True)] == ["notice"]
