"""Conversations to hand over: each held with one wire, with what that wire leaves in a transcript.

`held(api, …)` gives the named stories; `anything` is a hypothesis strategy for what nobody thought of.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st

from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)

B64 = base64.b64encode(b"opaque thought").decode()
PNG = ImageBlock(base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(), "image/png")
ODD = (ImageBlock("aGVsbG8=", "image/svg+xml"), ImageBlock("aGVsbG8=", "image/gif"), ImageBlock("", "image/png"))
SUMMARY = [{"type": "summary_text", "text": "hm"}]
REASONING = msgspec.json.encode(
    {"id": "rs_1", "type": "reasoning", "summary": SUMMARY, "encrypted_content": "gAAA"}
).decode()

# What a thought and an id look like where they come from.
THOUGHTS: dict[str, ThinkingBlock] = {
    "anthropic-messages": ThinkingBlock("hm", "EqRkCkYIBxgCKkBopaque=="),
    "openai-completions": ThinkingBlock("hm", "reasoning_content"),
    "openai-responses": ThinkingBlock("hm", REASONING),
    "openai-codex-responses": ThinkingBlock("hm", REASONING),
    "google-generative-ai": ThinkingBlock("hm", B64),
    "ollama": ThinkingBlock("hm"),
    "bedrock-converse-stream": ThinkingBlock("hm", "EqRkCkYIBxgCKkBopaque=="),
}
IDS: dict[str, str] = {
    "anthropic-messages": "toolu_01A{n}",
    "openai-completions": "call_{n}",
    "openai-responses": "call_{n}|fc_{n}",
    "openai-codex-responses": "call_" + "x" * 50 + "{n}|fc_" + "y" * 70 + "{n}",
    "google-generative-ai": "read_1750000000000_{n}",
    "ollama": "call_7_{n}",
    "bedrock-converse-stream": "tooluse_{n}",
    "mistral": "aBcDeF12{n}",
    "strange": "functions.read:{n} ü/" + "z" * 90,
}


class Scribe:
    """Writes the messages of one model."""

    def __init__(self, api: str, provider: str = "p", model: str = "m", ids: str = "") -> None:
        self.api, self.provider, self.model = api, provider, model
        self.ids = IDS[ids or api]
        self.thought = THOUGHTS[api]

    def said(self, *blocks: Any, stop: Any = "stop") -> AssistantMessage:
        return AssistantMessage(blocks, self.api, self.provider, self.model, stopReason=stop)

    def call(self, n: int, name: str = "read", **args: Any) -> ToolCall:
        signature = B64 if self.api == "google-generative-ai" else None
        return ToolCall(self.ids.format(n=n), name, args, signature)

    def result(self, n: int, *blocks: Any, name: str = "read", error: bool = False) -> ToolResult:
        return ToolResult(self.ids.format(n=n), name, blocks, isError=error)

    def text(self, words: str) -> TextBlock:
        signature = '{"v":1,"id":"msg_1"}' if "responses" in self.api else None
        return TextBlock(words, B64 if self.api == "google-generative-ai" else signature)


def plain(s: Scribe) -> list[Message]:
    return [UserMessage("hello"), s.said(s.text("Hi, grüß dich 🦞")), UserMessage("and now?")]


def thinking(s: Scribe) -> list[Message]:
    return [
        UserMessage("q"),
        s.said(s.thought, s.text("a")),
        UserMessage("q2"),
        s.said(s.thought, s.text("b")),
        UserMessage("q3"),
    ]


def redacted(s: Scribe) -> list[Message]:
    return [UserMessage("q"), s.said(ThinkingBlock("", B64, True), s.thought, s.text("a")), UserMessage("more")]


def only_thoughts(s: Scribe) -> list[Message]:
    return [
        UserMessage("q"),
        s.said(s.thought),
        UserMessage("well?"),
        s.said(s.thought, stop="length"),
        UserMessage("?"),
    ]


def tools(s: Scribe) -> list[Message]:
    return [
        UserMessage("look"),
        s.said(s.thought, s.text("let me see"), s.call(1, path="a"), s.call(2, path="b"), stop="toolUse"),
        s.result(1, TextBlock("one")),
        s.result(2, TextBlock("two")),
        s.said(s.thought, s.call(3, path="c"), stop="toolUse"),
        s.result(3, TextBlock("three")),
    ]


def finished_tools(s: Scribe) -> list[Message]:
    return [*tools(s), s.said(s.text("done")), UserMessage("thanks; again")]


def late_results(s: Scribe) -> list[Message]:
    """Results out of order, doubled, after a steered message."""
    return [
        UserMessage("look"),
        s.said(s.call(1), s.call(2), stop="toolUse"),
        s.result(2, TextBlock("two")),
        UserMessage("hurry"),
        s.result(1, TextBlock("one")),
        s.result(1, TextBlock("one again")),
        s.result(9, TextBlock("nobody asked")),
    ]


def orphans(s: Scribe) -> list[Message]:
    """Calls whose results never came: the process died."""
    asked = s.said(s.thought, s.call(1), s.call(2), stop="toolUse")
    return [UserMessage("look"), asked, s.result(1, TextBlock("one")), UserMessage("?")]


def aborted(s: Scribe) -> list[Message]:
    return [
        UserMessage("look"),
        s.said(s.thought, s.text("I will"), s.call(1), stop="aborted"),
        UserMessage("again"),
        s.said(s.thought, stop="error"),
        UserMessage("once more"),
        s.said(s.text(""), stop="error"),
        UserMessage("please"),
    ]


def summary(s: Scribe) -> list[Message]:
    """After a compaction: a summary as the first user message, then the tail, which begins with an answer."""
    return [
        UserMessage("The conversation so far: the user wants a lobster."),
        s.said(s.thought, s.text("ok"), s.call(1), stop="toolUse"),
        s.result(1, TextBlock("x")),
        s.said(s.text("y")),
        UserMessage("go on"),
    ]


def begins_with_an_answer(s: Scribe) -> list[Message]:
    return [s.said(s.text("Good morning!")), UserMessage("morning")]


def pictures(s: Scribe) -> list[Message]:
    return [
        UserMessage((TextBlock("what is this"), PNG, *ODD)),
        s.said(s.call(1, "screenshot"), s.call(2, "screenshot"), s.call(3, "read"), stop="toolUse"),
        s.result(1, PNG, name="screenshot"),
        s.result(2, TextBlock("and"), PNG, *ODD, name="screenshot", error=True),
        s.result(3, TextBlock("plain")),
        UserMessage((PNG,)),
    ]


def empties(s: Scribe) -> list[Message]:
    return [
        UserMessage(""),
        UserMessage("  \n"),
        UserMessage((TextBlock(""), TextBlock("x"))),
        s.said(s.text(" \n "), s.call(1), s.call(2), s.call(3), s.call(4), stop="toolUse"),
        s.result(1),
        s.result(2, TextBlock("")),
        s.result(3, error=True),
        s.result(4, TextBlock("  \n"), error=True),
        s.said(s.text("  ")),
        UserMessage(()),
    ]


def unicode(s: Scribe) -> list[Message]:
    return [
        UserMessage("\ud83d lone, \x00 nul, \u202e bidi, 👩‍👩‍👧"),
        s.said(s.text("\udc00 ok"), s.call(1, "write", path="\ud83d", text="ü\x00", x=1.5), stop="toolUse"),
        s.result(1, TextBlock("\udfff\u2028"), name="write"),
    ]


def names(s: Scribe) -> list[Message]:
    """Tools nobody ever had: models invent them."""
    calls = ("functions.read", "read file", "lesen_ü", "1st", "x" * 100, "<|tool|>")
    return [
        UserMessage("go"),
        s.said(*(s.call(n, name) for n, name in enumerate(calls)), stop="toolUse"),
        *(s.result(n, TextBlock("Tool not found"), name=name, error=True) for n, name in enumerate(calls)),
    ]


def same_ids(s: Scribe) -> list[Message]:
    """Servers that count calls from 1 in every answer, and ids that differ only behind the bar."""
    return [
        UserMessage("a"),
        s.said(s.call(1), stop="toolUse"),
        s.result(1, TextBlock("x")),
        s.said(s.call(1), stop="toolUse"),
        s.result(1, TextBlock("y")),
        s.said(ToolCall("k|fc_1", "read", {}), ToolCall("k|fc_2", "read", {}), stop="toolUse"),
        ToolResult("k|fc_1", "read", (TextBlock("1"),)),
        ToolResult("k|fc_2", "read", (TextBlock("2"),)),
    ]


STORIES: tuple[Callable[[Scribe], list[Message]], ...] = (
    plain,
    thinking,
    redacted,
    only_thoughts,
    tools,
    finished_tools,
    late_results,
    orphans,
    aborted,
    summary,
    begins_with_an_answer,
    pictures,
    empties,
    unicode,
    names,
    same_ids,
)


# --- whatever else ---------------------------------------------------------------------------------------------

_text = st.text(max_size=12) | st.sampled_from(["", " ", "\ud800", "a|b"])
_ident = st.sampled_from(["c1", "c2", "k|fc_x", "k|fc_y", "toolu_1", "ü", "x" * 99, " "]) | st.text(max_size=5)
_name = st.sampled_from(["read", "write", "no such tool", ""])
_picture = st.sampled_from([PNG, *ODD])
_shown = st.lists(st.builds(TextBlock, _text) | _picture, max_size=3).map(tuple)
_thought = st.sampled_from(
    [*THOUGHTS.values(), ThinkingBlock("", B64, True), ThinkingBlock("x", ""), ThinkingBlock("", None)]
)
_call = st.builds(ToolCall, _ident, _name, st.dictionaries(_text, st.integers() | _text, max_size=2))
_signed = st.builds(TextBlock, _text, st.sampled_from([None, B64, "msg_7", '{"v":1,"id":"msg_8"}', "not base64!"]))
_answer = st.builds(
    AssistantMessage,
    st.lists(_thought | _call | _signed, max_size=5).map(tuple),
    st.sampled_from(list(THOUGHTS)),
    st.sampled_from(["p", "q"]),
    st.just("m"),
    stopReason=st.sampled_from(["stop", "length", "toolUse", "error", "aborted"]),
)
_result = st.builds(ToolResult, _ident, _name, _shown, st.booleans())
anything = st.lists(st.builds(UserMessage, _text | _shown) | _answer | _result, max_size=8)
