"""Requests to small models as actions, and what they write, cut anywhere."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.calls.actions import SHAPES, ActionDecoder, shape_actions
from palinurus.core.calls.events import CUT
from palinurus.core.jsonschema import find_violations
from palinurus.core.types.messages import (
    REPEATED,
    AssistantMessage,
    Message,
    StopReason,
    TextBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.core.types.model import (
    ModelEvent,
    ModelFailure,
    ModelRequest,
    Prompt,
    StreamDone,
    StreamFailed,
    TextDelta,
)
from palinurus.core.types.tool import ToolSpec
from palinurus.testing.model import make_model_info


def spec(name: str, **properties: str) -> ToolSpec:
    kinds = {key: {"type": kind} for key, kind in properties.items()}
    return ToolSpec(name, f"{name} something. More.", {"type": "object", "properties": kinds, "required": [*kinds]})


TOOLS = (
    spec("read", path="string"),
    spec("write", path="string", content="string"),
    spec("edit", path="string", edits="array"),
    spec("ls", path="string"),
    spec("dice", sides="integer"),
)
HI = UserMessage("what is in a.txt?")
READ = ToolCall("c1", "read", {"path": "a.txt"})
ASKED = AssistantMessage((READ,), stopReason="toolUse")
EDIT = ' {"do": "edit", "path": "a", "old": "x", "new": "y"}'
GOT = ToolResult("c1", "read", (TextBlock("milk"),))


def request(*messages: Message) -> ModelRequest:
    return ModelRequest(make_model_info(), Prompt("be kind"), messages or (HI,), TOOLS)


def run(text: str, *messages: Message, size: int = 3, stop: StopReason = "stop") -> list[ModelEvent]:
    machine, out = ActionDecoder(request(*messages)), []
    for at in range(0, len(text), size):
        out += machine.feed(TextDelta(text[at : at + size]))
    return out + machine.feed(StreamDone(AssistantMessage((TextBlock(text),), stopReason=stop)))


def last(events: list[ModelEvent]) -> AssistantMessage:
    end = events[-1]
    assert isinstance(end, StreamDone)
    return end.message


def said(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def act(name: str, **fields: Any) -> str:
    return json.dumps({"do": name, **fields})


def test_the_model_gets_actions_and_examples_instead_of_tools() -> None:
    asked = shape_actions(request())
    assert asked.tools == () and asked.prompt.stable.startswith("be kind\n\n")
    text = asked.prompt.text
    assert '{"do":"edit","path":"PATH","old":"OLD","new":"NEW"}' in text and '{"do":"answer","text":"TEXT"}' in text
    assert '{"do":"dice","sides":"SIDES"}  (dice something)' in text  # one that nobody has written words for
    assert text.index('"ls"') < text.index('"read"')
    shown = [json.loads(line.partition(" -> ")[2]) for line in text.splitlines() if " -> " in line]
    assert len(shown) == 8 and all(not find_violations(asked.schema or {}, one) for one in shown)
    assert shape_actions(request(HI, ASKED, GOT)).prompt == asked.prompt  # the beginning stays as it is
    assert len(text) // 4 < 400  # about tokens


def test_the_schema_takes_what_is_told_and_nothing_else() -> None:
    schema = shape_actions(request()).schema
    assert schema is not None
    for name in ("read", "write", "edit", "ls"):
        shape = SHAPES[name]
        for _, values in shape.examples:
            assert not find_violations(schema, {"do": name, **dict(zip(shape.fields, values, strict=True))})
    assert not find_violations(schema, {"do": "dice", "sides": 6})
    assert not find_violations(schema, {"do": "answer", "text": "x"})
    for wrong in ({"do": "exec", "command": "ls"}, {"do": "read"}, {"do": "answer", "text": ""}, {"text": "x"}):
        assert find_violations(schema, wrong)


def test_of_many_tools_those_with_an_example_are_told() -> None:
    many = msgspec.structs.replace(request(), tools=(*TOOLS, *(spec(f"t{n}", x="string") for n in range(9))))
    text = shape_actions(many).prompt.text
    assert '"read"' in text and '"t1"' not in text and '"dice"' not in text


def test_the_past_is_told_in_actions() -> None:
    done = AssistantMessage((TextBlock("It says milk."),))
    shaped = shape_actions(request(HI, ASKED, GOT, done, UserMessage("thanks"))).messages
    assert [m.text for m in shaped] == [
        "what is in a.txt?",
        '{"do":"read","path":"a.txt"}',
        "Result of read:\nmilk",
        '{"do":"answer","text":"It says milk."}',
        "thanks",
    ]


def test_nothing_of_many_turns_is_lost() -> None:
    said: list[Message] = []
    for n in range(10):
        call = ToolCall(f"c{n}", "read", {"path": f"{n}.txt"})
        said += [UserMessage(f"ask {n}"), AssistantMessage((call,), stopReason="toolUse")]
        said += [
            ToolResult(call.id, "read", (TextBlock(f"result {n}"),)),
            AssistantMessage((TextBlock(f"answer {n}"),)),
        ]
    told = [message.text for message in shape_actions(request(*said, UserMessage("last"))).messages]
    wanted = [word for n in range(10) for word in (f"ask {n}", f"{n}.txt", f"result {n}", f"answer {n}")]
    assert len(told) == 41 and all(word in line for word, line in zip([*wanted, "last"], told, strict=True))


def test_a_long_result_keeps_both_ends() -> None:
    long = ToolResult("c1", "read", (TextBlock("first\n" + "x" * 50_000 + "\nlast"),), isError=True)
    text = shape_actions(request(HI, ASKED, long)).messages[-1].text
    assert len(text) < 7_000 and "first" in text and "last" in text and text.startswith("read failed:")


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        (act("read", path="a.txt"), "read", {"path": "a.txt"}),
        (
            ' {"do": "edit", "path": "a", "old": "x", "new": "y"}',
            "edit",
            {"path": "a", "edits": [{"oldText": "x", "newText": "y"}]},
        ),
        ("{'do': 'dice', 'sides': 6}", "dice", {"sides": 6}),
    ],
)
def test_an_action_is_a_call(text: str, name: str, arguments: dict[str, Any]) -> None:
    events = run(text)
    (call,) = last(events).calls
    assert (call.name, call.arguments, call.invalid, last(events).stopReason) == (name, arguments, None, "toolUse")
    assert said(events) == ""  # nobody sees half a call


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40), st.integers(1, 7), st.booleans())
def test_an_answer_is_shown_as_it_comes_wherever_it_is_cut(text: str, size: int, plain: bool) -> None:
    written = json.dumps({"do": "answer", "text": text}, ensure_ascii=not plain)
    events = run(written, size=size)
    assert said(events) == last(events).text == text and not last(events).calls


def test_an_answer_is_shown_before_it_ends() -> None:
    machine = ActionDecoder(request())
    assert said(machine.feed(TextDelta('{"do":"answer","text":"It is \\u00e9'))) == "It is é"
    assert said(machine.feed(TextDelta("\\ud83d"))) == ""
    assert said(machine.feed(TextDelta("\\ude00 and"))) == "😀 and"


def test_what_was_cut_off_by_the_limit() -> None:
    (call,) = last(run('{"do":"write","path":"a","content":"half', stop="length")).calls
    assert call.invalid == CUT
    assert last(run('{"do":"answer","text":"half', stop="length")).text == "half"


def test_half_an_action_reaches_nobody() -> None:
    for text, kept in (('{"do":"wri', ""), ('{"d', ""), ('{"do":"answer","text":"It is \\u00', "It is ")):
        machine = ActionDecoder(request())
        shown = said(machine.feed(TextDelta(text)))
        cut = AssistantMessage((TextBlock(text),), stopReason="error")
        (end,) = machine.feed(StreamFailed(ModelFailure("cut", "gone"), cut))
        assert isinstance(end, StreamFailed) and end.message.text == shown == kept
    events = run('{"d', stop="length")
    assert said(events) == last(events).text == ""


def test_after_an_edit_that_did_not_fit_the_file_is_read_first_once() -> None:
    edit = AssistantMessage((ToolCall("e1", "edit", {"path": "a.txt", "edits": []}),), stopReason="toolUse")
    failed = ToolResult("e1", "edit", (TextBlock("oldText was not found"),), isError=True)

    def names(*messages: Message) -> list[str]:
        schema = shape_actions(request(*messages)).schema
        return [row["properties"]["do"]["const"] for row in (schema or {})["anyOf"]]

    assert names(HI, edit, failed) == ["read"]
    assert "answer" in names(HI, edit, msgspec.structs.replace(failed, isError=False))
    assert "answer" in names(HI, edit, failed, ASKED, GOT)
    again = msgspec.structs.replace(edit, content=(ToolCall("e2", "edit", {"path": "a.txt", "edits": []}),))
    both = (HI, edit, failed, ASKED, GOT, again, msgspec.structs.replace(failed, toolCallId="e2"))
    assert "answer" in names(*both)  # it may say that it cannot
    search = AssistantMessage((ToolCall("g1", "grep", {"pattern": "x"}),), stopReason="toolUse")
    nothing = ToolResult("g1", "grep", (TextBlock("No matches found."),), details={"matches": 0})
    assert names(HI, search, nothing) == ["read", "ls"]  # whoever searched for the wrong word looks before it says no
    assert "answer" in names(HI, search, msgspec.structs.replace(nothing, details={"matches": 2}))


def test_where_no_tool_may_be_called_only_the_answer_is_left() -> None:
    asked = msgspec.structs.replace(request(HI, ASKED, GOT), tool_choice="none")
    schema = shape_actions(asked).schema
    assert schema is not None and [row["properties"]["do"] for row in schema["anyOf"]] == [{"const": "answer"}]


def test_the_same_again_is_not_done_twice_and_then_only_the_answer_is_left() -> None:
    again = act("read", path="a.txt")
    (call,) = last(run(again, HI, ASKED, GOT)).calls
    assert call.invalid == REPEATED
    told = (HI, ASKED, GOT, AssistantMessage((call,), stopReason="toolUse"), ToolResult(call.id, "read", ()))
    schema = shape_actions(request(*told)).schema
    assert schema is not None and [row["properties"]["do"] for row in schema["anyOf"]] == [{"const": "answer"}]
    failed = msgspec.structs.replace(GOT, isError=True)
    assert last(run(again, HI, ASKED, failed)).calls[0].invalid is None  # what failed may be tried again
    assert last(run(act("read", path="b.txt"), HI, ASKED, GOT)).calls[0].invalid is None
    assert last(run(again, HI, ASKED, GOT, UserMessage("again, please"))).calls[0].invalid is None


def test_a_model_that_keeps_to_no_schema_is_read_all_the_same() -> None:
    events = run('<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>')
    assert [(c.name, c.arguments) for c in last(events).calls] == [("read", {"path": "a"})]
    assert said(run("Just words.")) == last(run("Just words.")).text == "Just words."
    assert [c.name for c in last(run('{"name": "read", "arguments": {"path": "a"}}')).calls] == ["read"]
