"""Sound JSON in other shapes: older versions, other writers, small mistakes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.core.types.usage import TokenUsage
from palinurus.sessions.entries import CompactionEntry, CustomEntry, MessageEntry, TranscriptHeader, UnknownEntry
from palinurus.sessions.foreign import convert_entry, convert_message


def message(role: str, **fields: Any) -> Any:
    return convert_message({"role": role, **fields})


def test_assistant_in_strange_forms() -> None:
    assert message("assistant", content="plain", stopReason="end_turn") == AssistantMessage((TextBlock("plain"),))
    assert message("assistant", content=None) == AssistantMessage(())
    made = message(
        "assistant",
        content=[
            {"type": "text", "text": "a", "textSignature": 5},
            {"type": "hologram", "data": "x"},
            {"type": "thinking", "thinking": "t", "thinkingSignature": "s"},
            {"type": "toolUse", "id": "1", "name": "ls", "input": {"p": 1}},
            {"type": "toolCall", "id": "2", "name": "ls", "arguments": '{"p": 2}'},
            {"type": "toolCall", "id": "3", "name": "ls", "arguments": "{broken"},
            7,
        ],
        usage={"input": 5.0, "output": -1, "cost": {"total": "x"}},
        timestamp="2026-06-10T09:00:01.000Z",
        errorMessage=["?"],
    )
    assert made.content[:4] == (
        TextBlock("a"),
        ThinkingBlock("t", "s"),
        ToolCall("1", "ls", {"p": 1}),
        ToolCall("2", "ls", {"p": 2}),
    )
    assert made.content[4].arguments == {}
    assert made.content[4].invalid
    assert made.stopReason == "toolUse"
    assert made.usage == TokenUsage(input=5)
    assert made.timestamp == 1781082001000


def test_results_and_users() -> None:
    assert message("toolResult", toolUseId="a", toolName="ls", content="text") == ToolResult(
        "a", "ls", (TextBlock("text"),)
    )
    assert message("user", content=["a", {"type": "image", "data": "d", "mimeType": "image/png"}, {}]) == UserMessage(
        (TextBlock("a"), ImageBlock("d", "image/png"))
    )
    assert message("user", content=[]) is None
    assert message("user") is None


@pytest.mark.parametrize("role", ["custom", "hookMessage"])
def test_version_2_hook_messages_are_custom_ones(role: str) -> None:
    assert message(role, customType="c", content="from a hook", timestamp=5) == UserMessage("from a hook", 5, "import")


def test_in_memory_roles() -> None:
    ran = message("bashExecution", command="ls -l", output="a.txt", exitCode=2)
    assert "ls -l" in ran.text
    assert "a.txt" in ran.text
    assert "2" in ran.text
    assert message("bashExecution", command="secret", output="x", excludeFromContext=True) is None
    assert "so far" in message("compactionSummary", summary="so far").text
    assert "left" in message("branchSummary", summary="left").text
    assert message("narrator", content="x") is None
    assert convert_message({"role": ["user"], "content": "x"}) is None


def test_unknown_lines_are_kept_as_they_are() -> None:
    raw = {"type": "hologram", "id": "a", "parentId": "b", "payload": [1]}
    assert convert_entry(raw) == UnknownEntry(raw=raw, id="a", parentId="b")
    odd = {"type": "message", "id": "a", "parentId": None, "message": {"role": "narrator"}}
    assert convert_entry(odd) == UnknownEntry(raw=odd, id="a", parentId=None)
    broken = {"type": "compaction", "id": "a", "parentId": None}
    assert convert_entry(broken) == UnknownEntry(raw=broken, id="a", parentId=None)


def test_small_mistakes_are_mended() -> None:
    made = convert_entry(
        {"type": "compaction", "id": "a", "summary": "s", "tokensBefore": "185000", "timestamp": 1781082001000}
    )
    assert made == CompactionEntry(id="a", summary="s", tokensBefore=185000, timestamp="2026-06-10T09:00:01.000Z")
    assert convert_entry({"type": "custom", "id": 5, "customType": "c"}) == CustomEntry(customType="c")
    header = convert_entry({"type": "session", "version": "3", "id": "u", "cwd": None})
    assert header == TranscriptHeader(id="u")


@pytest.mark.parametrize("raw", [{}, {"type": 5}, {"id": "a"}, {"role": "user", "content": "x"}])
def test_objects_without_a_type_are_no_lines(raw: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="type"):
        convert_entry(raw)


FIELDS = [
    "type",
    "role",
    "content",
    "text",
    "thinking",
    "id",
    "name",
    "arguments",
    "input",
    "usage",
    "cost",
    "message",
    "timestamp",
    "parentId",
    "summary",
    "customType",
    "data",
    "stopReason",
    "toolCallId",
    "toolName",
    "details",
    "version",
    "item",
    "command",
    "output",
    "exitCode",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=12,
)
TYPES = st.sampled_from(
    ["message", "session", "compaction", "custom", "custom_message", "label", "branch_summary", "?"]
)
ROLES = st.sampled_from(["user", "assistant", "toolResult", "custom", "bashExecution", "branchSummary"])


@given(TYPES, st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8), ROLES, JSON)
def test_no_object_with_a_type_is_refused(kind: str, raw: dict[str, Any], role: str, content: Any) -> None:
    body = {**raw, "role": role, "content": content}
    made = convert_entry({**raw, "type": kind, "message": body})
    assert isinstance(made, TranscriptHeader) == (kind == "session")
    assert convert_entry({"type": "message", "id": "a", "message": body}) is not None
    assert isinstance(convert_entry({"type": "message", "id": "a", "message": body}), MessageEntry | UnknownEntry)
