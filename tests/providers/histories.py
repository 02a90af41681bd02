"""Conversations to hand over: each held with one wire, with what that wire leaves in a transcript.

`held(api, …)` gives the named stories; `anything` is a hypothesis strategy for what nobody thought of.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st

from palinurus.core.types.messages import Assistant, Image, Message, Text, Thinking, ToolCall, ToolResult, User

B64 = base64.b64encode(b"opaque thought").decode()
PNG = Image(base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(), "image/png")
ODD = (Image("aGVsbG8=", "image/svg+xml"), Image("aGVsbG8=", "image/gif"), Image("", "image/png"))
SUMMARY = [{"type": "summary_text", "text": "hm"}]
REASONING = msgspec.json.encode(
    {"id": "rs_1", "type": "reasoning", "summary": SUMMARY, "encrypted_content": "gAAA"}
).decode()

# What a thought and an id look like where they come from.
THOUGHTS: dict[str, Thinking] = {
    "anthropic-messages": Thinking("hm", "EqRkCkYIBxgCKkBopaque=="),
    "openai-completions": Thinking("hm", "reasoning_content"),
    "openai-responses": Thinking("hm", REASONING),
    "openai-codex-responses": Thinking("hm", REASONING),
    "google-generative-ai": Thinking("hm", B64),
    "ollama": Thinking("hm"),
    "bedrock-converse-stream": Thinking("hm", "EqRkCkYIBxgCKkBopaque=="),
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

    def said(self, *blocks: Any, stop: Any = "stop") -> Assistant:
        return Assistant(blocks, self.api, self.provider, self.model, stopReason=stop)

    def call(self, n: int, name: str = "read", **args: Any) -> ToolCall:
        signature = B64 if self.api == "google-generative-ai" else None
        return ToolCall(self.ids.format(n=n), name, args, signature)

    def result(self, n: int, *blocks: Any, name: str = "read", error: bool = False) -> ToolResult:
        return ToolResult(self.ids.format(n=n), name, blocks, isError=error)

    def text(self, words: str) -> Text:
        signature = '{"v":1,"id":"msg_1"}' if "responses" in self.api else None
        return Text(words, B64 if self.api == "google-generative-ai" else signature)


def plain(s: Scribe) -> list[Message]:
    return [User("hello"), s.said(s.text("Hi, grüß dich 🦞")), User("and now?")]


def thinking(s: Scribe) -> list[Message]:
    return [User("q"), s.said(s.thought, s.text("a")), User("q2"), s.said(s.thought, s.text("b")), User("q3")]


def redacted(s: Scribe) -> list[Message]:
    return [User("q"), s.said(Thinking("", B64, True), s.thought, s.text("a")), User("more")]


def only_thoughts(s: Scribe) -> list[Message]:
    return [User("q"), s.said(s.thought), User("well?"), s.said(s.thought, stop="length"), User("?")]


def tools(s: Scribe) -> list[Message]:
    return [
        User("look"),
        s.said(s.thought, s.text("let me see"), s.call(1, path="a"), s.call(2, path="b"), stop="toolUse"),
        s.result(1, Text("one")),
        s.result(2, Text("two")),
        s.said(s.thought, s.call(3, path="c"), stop="toolUse"),
        s.result(3, Text("three")),
    ]


def finished_tools(s: Scribe) -> list[Message]:
    return [*tools(s), s.said(s.text("done")), User("thanks; again")]


def late_results(s: Scribe) -> list[Message]:
    """Results out of order, doubled, after a steered message."""
    return [
        User("look"),
        s.said(s.call(1), s.call(2), stop="toolUse"),
        s.result(2, Text("two")),
        User("hurry"),
        s.result(1, Text("one")),
        s.result(1, Text("one again")),
        s.result(9, Text("nobody asked")),
    ]


def orphans(s: Scribe) -> list[Message]:
    """Calls whose results never came: the process died."""
    asked = s.said(s.thought, s.call(1), s.call(2), stop="toolUse")
    return [User("look"), asked, s.result(1, Text("one")), User("?")]


def aborted(s: Scribe) -> list[Message]:
    return [
        User("look"),
        s.said(s.thought, s.text("I will"), s.call(1), stop="aborted"),
        User("again"),
        s.said(s.thought, stop="error"),
        User("once more"),
        s.said(s.text(""), stop="error"),
        User("please"),
    ]


def summary(s: Scribe) -> list[Message]:
    """After a compaction: a summary as the first user message, then the tail, which begins with an answer."""
    return [
        User("The conversation so far: the user wants a lobster."),
        s.said(s.thought, s.text("ok"), s.call(1), stop="toolUse"),
        s.result(1, Text("x")),
        s.said(s.text("y")),
        User("go on"),
    ]


def begins_with_an_answer(s: Scribe) -> list[Message]:
    return [s.said(s.text("Good morning!")), User("morning")]


def pictures(s: Scribe) -> list[Message]:
    return [
        User((Text("what is this"), PNG, *ODD)),
        s.said(s.call(1, "screenshot"), s.call(2, "screenshot"), s.call(3, "read"), stop="toolUse"),
        s.result(1, PNG, name="screenshot"),
        s.result(2, Text("and"), PNG, *ODD, name="screenshot", error=True),
        s.result(3, Text("plain")),
        User((PNG,)),
    ]


def empties(s: Scribe) -> list[Message]:
    return [
        User(""),
        User("  \n"),
        User((Text(""), Text("x"))),
        s.said(s.text(" \n "), s.call(1), s.call(2), s.call(3), s.call(4), stop="toolUse"),
        s.result(1),
        s.result(2, Text("")),
        s.result(3, error=True),
        s.result(4, Text("  \n"), error=True),
        s.said(s.text("  ")),
        User(()),
    ]


def unicode(s: Scribe) -> list[Message]:
    return [
        User("\ud83d lone, \x00 nul, \u202e bidi, 👩‍👩‍👧"),
        s.said(s.text("\udc00 ok"), s.call(1, "write", path="\ud83d", text="ü\x00", x=1.5), stop="toolUse"),
        s.result(1, Text("\udfff\u2028"), name="write"),
    ]


def names(s: Scribe) -> list[Message]:
    """Tools nobody ever had: models invent them."""
    calls = ("functions.read", "read file", "lesen_ü", "1st", "x" * 100, "<|tool|>")
    return [
        User("go"),
        s.said(*(s.call(n, name) for n, name in enumerate(calls)), stop="toolUse"),
        *(s.result(n, Text("Tool not found"), name=name, error=True) for n, name in enumerate(calls)),
    ]


def same_ids(s: Scribe) -> list[Message]:
    """Servers that count calls from 1 in every answer, and ids that differ only behind the bar."""
    return [
        User("a"),
        s.said(s.call(1), stop="toolUse"),
        s.result(1, Text("x")),
        s.said(s.call(1), stop="toolUse"),
        s.result(1, Text("y")),
        s.said(ToolCall("k|fc_1", "read", {}), ToolCall("k|fc_2", "read", {}), stop="toolUse"),
        ToolResult("k|fc_1", "read", (Text("1"),)),
        ToolResult("k|fc_2", "read", (Text("2"),)),
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
_shown = st.lists(st.builds(Text, _text) | _picture, max_size=3).map(tuple)
_thought = st.sampled_from([*THOUGHTS.values(), Thinking("", B64, True), Thinking("x", ""), Thinking("", None)])
_call = st.builds(ToolCall, _ident, _name, st.dictionaries(_text, st.integers() | _text, max_size=2))
_signed = st.builds(Text, _text, st.sampled_from([None, B64, "msg_7", '{"v":1,"id":"msg_8"}', "not base64!"]))
_answer = st.builds(
    Assistant,
    st.lists(_thought | _call | _signed, max_size=5).map(tuple),
    st.sampled_from(list(THOUGHTS)),
    st.sampled_from(["p", "q"]),
    st.just("m"),
    stopReason=st.sampled_from(["stop", "length", "toolUse", "error", "aborted"]),
)
_result = st.builds(ToolResult, _ident, _name, _shown, st.booleans())
anything = st.lists(st.builds(User, _text | _shown) | _answer | _result, max_size=8)
