"""The shapes of version 3, written and read."""

from __future__ import annotations

import json

import pytest

from palinurus.core.types.messages import AssistantMessage, ImageBlock, TextBlock, ToolCall, ToolResult, UserMessage
from palinurus.sessions.entries import (
    DECODER,
    BranchSummary,
    Compaction,
    Custom,
    CustomMessage,
    Header,
    Info,
    Label,
    LevelChange,
    ModelChange,
    Said,
    encode,
    iso,
    millis,
    spoken,
    written,
)

PLACE = '"id":"a1b2c3d4","parentId":null,"timestamp":"2026-06-10T09:00:00.000Z"'
LINES = [
    (f'{{"type":"message",{PLACE},"message":{{"role":"user","content":"x"}}}}', Said),
    (f'{{"type":"model_change",{PLACE},"provider":"p","modelId":"m"}}', ModelChange),
    (f'{{"type":"thinking_level_change",{PLACE},"thinkingLevel":"high"}}', LevelChange),
    (f'{{"type":"compaction",{PLACE},"summary":"s","firstKeptEntryId":"f","tokensBefore":9}}', Compaction),
    (f'{{"type":"branch_summary",{PLACE},"summary":"s","fromId":"f"}}', BranchSummary),
    (f'{{"type":"custom",{PLACE},"customType":"openclaw.cache-ttl","data":{{"a":1}}}}', Custom),
    (f'{{"type":"custom_message",{PLACE},"customType":"c","content":"hello","display":false}}', CustomMessage),
    (f'{{"type":"label",{PLACE},"targetId":"t","label":"l"}}', Label),
    (f'{{"type":"session_info",{PLACE},"name":"n"}}', Info),
]


@pytest.mark.parametrize(("line", "kind"), LINES)
def test_every_type_is_read_and_written_alike(line: str, kind: type) -> None:
    entry = DECODER.decode(line)
    assert type(entry) is kind
    assert not isinstance(entry, Header)
    again = json.loads(written(entry)[1])
    given = json.loads(line)
    if kind is Said:
        given["message"]["timestamp"] = 0
    assert again == given


def test_header() -> None:
    line = b'{"type":"session","version":3,"id":"2f1e","timestamp":"2026-06-10T09:00:00.000Z","cwd":"/w"}'
    header = DECODER.decode(line)
    assert isinstance(header, Header)
    assert encode(header) == line


def test_the_item_is_an_extra_field() -> None:
    data = json.loads(written(Said(id="a", parentId=None, message=UserMessage("x"), item="01item"))[1])
    assert data["item"] == "01item"
    assert "item" not in json.loads(written(Said(id="a", message=UserMessage("x")))[1])


def test_what_cannot_be_written_is_replaced_on_file_and_in_memory() -> None:
    half = "cut \ud83d here"
    entry, data = written(
        Said(id="a", parentId=None, message=ToolResult("c", "exec", (TextBlock(half),), details={"n": 2**70}))
    )
    assert b"\n" not in data
    assert DECODER.decode(data) == entry
    assert isinstance(entry, Said)
    assert isinstance(entry.message, ToolResult)
    assert entry.message.text == "cut � here"


def test_details_nobody_can_encode_do_not_stop_a_write() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd"

    _, data = written(Said(id="a", message=ToolResult("c", "exec", (TextBlock("ok"),), details={"x": Odd()})))
    assert json.loads(data)["message"]["details"] == {"x": "odd"}


def test_newlines_never_break_a_line() -> None:
    _, data = written(Said(id="a", message=UserMessage("one\ntwo\r\n\u2028three")))
    assert b"\n" not in data
    assert b"\r" not in data


def test_times() -> None:
    assert iso(1781082001000) == "2026-06-10T09:00:01.000Z"
    assert millis("2026-06-10T09:00:01.000Z") == 1781082001000
    assert millis("yesterday") == 0


def test_what_the_model_sees_of_a_line() -> None:
    assert spoken(CustomMessage(customType="c", content=(TextBlock("x"), ImageBlock("d", "image/png")))) == UserMessage(
        (TextBlock("x"), ImageBlock("d", "image/png"))
    )
    summary = spoken(BranchSummary(summary="went elsewhere"))
    assert isinstance(summary, UserMessage)
    assert "went elsewhere" in summary.text
    for silent in (Custom(customType="c"), Label(targetId="t"), Info(name="n"), ModelChange(provider="p", modelId="m")):
        assert spoken(silent) is None


@pytest.mark.parametrize(
    ("provider", "model", "shown"),
    [
        ("openclaw", "delivery-mirror", False),
        ("openclaw", "gateway-injected", False),
        ("openclaw", "other", True),
        ("anthropic", "delivery-mirror", True),
    ],
)
def test_mirrors_are_not_sent(provider: str, model: str, shown: bool) -> None:
    message = AssistantMessage((TextBlock("delivered"), ToolCall("a", "b", {})), provider=provider, model=model)
    assert spoken(Said(message=message)) == (message if shown else None)
