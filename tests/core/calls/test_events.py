"""The machine behind a decoder: text events in, call events out."""

from __future__ import annotations

import msgspec
import pytest

from core.calls.kit import NEGATIVES, TOOLS
from palinurus.core.calls.events import CUT, TextCallDecoder
from palinurus.core.types.messages import (
    AssistantMessage,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.core.types.model import (
    CallDelta,
    CallStart,
    Message,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    Prompt,
    StreamDone,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
)
from palinurus.testing.model import make_model_info

CALL = '<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>'


def request(*messages: Message, tools: bool = True) -> ModelRequest:
    return ModelRequest(make_model_info(), Prompt("p"), messages or (UserMessage("hi"),), TOOLS if tools else ())


def run(text: str, asked: ModelRequest, stop: StopReason = "stop", size: int = 3) -> list[ModelEvent]:
    machine = TextCallDecoder(asked)
    out: list[ModelEvent] = []
    for at in range(0, len(text), size):
        out += machine.feed(TextDelta(text[at : at + size]))
    return out + machine.feed(
        StreamDone(AssistantMessage((ThinkingBlock("hm"), TextBlock(text)), "a", "p", "m", stopReason=stop))
    )


def last(events: list[ModelEvent]) -> AssistantMessage:
    end = events[-1]
    assert isinstance(end, StreamDone)
    return end.message


def test_a_written_call_becomes_a_call() -> None:
    events = run("Let me see.\n" + CALL, request())
    message = last(events)
    assert message.content == (
        ThinkingBlock("hm"),
        TextBlock("Let me see.\n"),
        ToolCall("text_1_0", "read", {"path": "a"}),
    )
    assert message.stopReason == "toolUse"
    assert (message.api, message.provider, message.model) == ("a", "p", "m")
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Let me see.\n"
    assert [e for e in events if isinstance(e, CallStart | CallDelta)] == [
        CallStart(0, "text_1_0", "read"),
        CallDelta(0, '{"path":"a"}'),
    ]


@pytest.mark.parametrize("text", NEGATIVES)
def test_other_answers_stay_what_they_are(text: str) -> None:
    events = run(text, request())
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == text
    assert last(events).content == (ThinkingBlock("hm"), TextBlock(text))
    assert last(events).stopReason == "stop"


def test_without_tools_nothing_is_looked_at() -> None:
    machine = TextCallDecoder(request(tools=False))
    assert machine.feed(TextDelta("<tool_")) == [TextDelta("<tool_")]


def test_structured_calls_win() -> None:
    machine = TextCallDecoder(request())
    assert machine.feed(TextDelta(CALL)) == []
    start = CallStart(0, "c1", "ls")
    assert machine.feed(start) == [TextDelta(CALL), start]
    end = StreamDone(AssistantMessage((TextBlock(CALL), ToolCall("c1", "ls", {})), stopReason="toolUse"))
    assert machine.feed(end) == [end]


def test_a_message_that_has_calls_keeps_them() -> None:
    machine = TextCallDecoder(request())
    machine.feed(TextDelta(CALL))
    end = StreamDone(AssistantMessage((TextBlock(CALL), ToolCall("c1", "ls", {})), stopReason="toolUse"))
    assert machine.feed(end) == [TextDelta(CALL), end]


@pytest.mark.parametrize(
    "text", [CALL, "```json\n" + CALL[11:], "<tools>" + CALL[11:], '<function name="read" arguments="']
)
def test_half_a_call_reaches_nobody_wherever_the_stream_is_cut(text: str) -> None:
    for size in range(2, len(text)):
        machine, whole = TextCallDecoder(request()), "ok\n" + text[:size]
        shown = [e for e in machine.feed(TextDelta(whole)) if isinstance(e, TextDelta)]
        end = StreamFailed(ModelFailure("cut", "gone"), AssistantMessage((TextBlock(whole),), stopReason="error"))
        (last,) = machine.feed(end)
        said = "".join(e.text for e in shown)
        assert isinstance(last, StreamFailed) and last.message.text == said and said.strip() == "ok"


def test_half_a_call_at_the_token_limit_reaches_nobody() -> None:
    events = run("ok\n" + '<tool_call>{"na', request(), "length")
    assert last(events).text == "ok\n" and not last(events).calls
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "ok\n"


def test_thinking_passes() -> None:
    machine = TextCallDecoder(request())
    assert machine.feed(ThinkingDelta(CALL)) == [ThinkingDelta(CALL)]


def test_a_call_cut_by_the_token_limit_is_not_run() -> None:
    message = last(run('<tool_call>{"name": "read", "arguments": {"path": "/etc/pas', request(), "length"))
    assert message.calls == (ToolCall("text_1_0", "read", {}, invalid=CUT),)
    assert message.stopReason == "length"


def test_a_whole_call_before_the_token_limit_is_run() -> None:
    message = last(run(CALL + CALL[:40], request(), "length"))
    assert message.calls[0] == ToolCall("text_1_0", "read", {"path": "a"})
    assert message.calls[1].invalid == CUT


def test_ids_are_new_in_the_conversation() -> None:
    before = (
        UserMessage("a"),
        AssistantMessage((ToolCall("text_3_0", "ls", {}),)),
        ToolResult("text_3_0", "ls", (TextBlock("x"),)),
    )
    assert last(run(CALL, request(*before))).calls[0].id == "text_4_0"


def test_what_comes_out_can_be_stored() -> None:
    text = '<tool_call>{"name": "read", "arguments": {"path": "\\ud83d", "limit": 3}}</tool_call>'
    msgspec.json.encode(last(run(text, request())))
