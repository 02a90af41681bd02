"""The shapes of version 3, written and read."""

from __future__ import annotations

import json

import pytest

from palinurus.core.types.messages import AssistantMessage, ImageBlock, TextBlock, ToolCall, ToolResult, UserMessage
from palinurus.sessions.entries import (
    ENTRY_DECODER,
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    LabelEntry,
    LevelChangeEntry,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    TranscriptHeader,
    encode_entry,
    encode_header,
    to_iso,
    to_message,
    to_millis,
)

PLACE = '"id":"a1b2c3d4","parentId":null,"timestamp":"2026-06-10T09:00:00.000Z"'
LINES = [
    (f'{{"type":"message",{PLACE},"message":{{"role":"user","content":"x"}}}}', MessageEntry),
    (f'{{"type":"model_change",{PLACE},"provider":"p","modelId":"m"}}', ModelChangeEntry),
    (f'{{"type":"thinking_level_change",{PLACE},"thinkingLevel":"high"}}', LevelChangeEntry),
    (f'{{"type":"compaction",{PLACE},"summary":"s","firstKeptEntryId":"f","tokensBefore":9}}', CompactionEntry),
    (f'{{"type":"branch_summary",{PLACE},"summary":"s","fromId":"f"}}', BranchSummaryEntry),
    (f'{{"type":"custom",{PLACE},"customType":"openclaw.cache-ttl","data":{{"a":1}}}}', CustomEntry),
    (f'{{"type":"custom_message",{PLACE},"customType":"c","content":"hello","display":false}}', CustomMessageEntry),
    (f'{{"type":"label",{PLACE},"targetId":"t","label":"l"}}', LabelEntry),
    (f'{{"type":"session_info",{PLACE},"name":"n"}}', SessionInfoEntry),
]


@pytest.mark.parametrize(("line", "kind"), LINES)
def test_every_type_is_read_and_written_alike(line: str, kind: type) -> None:
    entry = ENTRY_DECODER.decode(line)
    assert type(entry) is kind
    assert not isinstance(entry, TranscriptHeader)
    again = json.loads(encode_entry(entry)[1])
    given = json.loads(line)
    if kind is MessageEntry:
        given["message"]["timestamp"] = 0
    assert again == given


def test_header() -> None:
    line = b'{"type":"session","version":3,"id":"2f1e","timestamp":"2026-06-10T09:00:00.000Z","cwd":"/w"}'
    header = ENTRY_DECODER.decode(line)
    assert isinstance(header, TranscriptHeader)
    assert encode_header(header) == line


def test_the_item_is_an_extra_field() -> None:
    data = json.loads(encode_entry(MessageEntry(id="a", parentId=None, message=UserMessage("x"), item="01item"))[1])
    assert data["item"] == "01item"
    assert "item" not in json.loads(encode_entry(MessageEntry(id="a", message=UserMessage("x")))[1])


def test_what_cannot_be_written_is_replaced_on_file_and_in_memory() -> None:
    half = "cut \ud83d here"
    entry, data = encode_entry(
        MessageEntry(id="a", parentId=None, message=ToolResult("c", "exec", (TextBlock(half),), details={"n": 2**70}))
    )
    assert b"\n" not in data
    assert ENTRY_DECODER.decode(data) == entry
    assert isinstance(entry, MessageEntry)
    assert isinstance(entry.message, ToolResult)
    assert entry.message.text == "cut � here"


def test_details_nobody_can_encode_do_not_stop_a_write() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd"

    _, data = encode_entry(
        MessageEntry(id="a", message=ToolResult("c", "exec", (TextBlock("ok"),), details={"x": Odd()}))
    )
    assert json.loads(data)["message"]["details"] == {"x": "odd"}


def test_newlines_never_break_a_line() -> None:
    _, data = encode_entry(MessageEntry(id="a", message=UserMessage("one\ntwo\r\n\u2028three")))
    assert b"\n" not in data
    assert b"\r" not in data


def test_times() -> None:
    assert to_iso(1781082001000) == "2026-06-10T09:00:01.000Z"
    assert to_millis("2026-06-10T09:00:01.000Z") == 1781082001000
    assert to_millis("yesterday") == 0


def test_what_the_model_sees_of_a_line() -> None:
    assert to_message(
        CustomMessageEntry(customType="c", content=(TextBlock("x"), ImageBlock("d", "image/png")))
    ) == UserMessage((TextBlock("x"), ImageBlock("d", "image/png")), source="import")
    summary = to_message(BranchSummaryEntry(summary="went elsewhere"))
    assert isinstance(summary, UserMessage)
    assert "went elsewhere" in summary.text
    for silent in (
        CustomEntry(customType="c"),
        LabelEntry(targetId="t"),
        SessionInfoEntry(name="n"),
        ModelChangeEntry(provider="p", modelId="m"),
    ):
        assert to_message(silent) is None


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
    assert to_message(MessageEntry(message=message)) == (message if shown else None)
