"""Where two requests part, and why."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.prompt.kit import full
from palinurus.agent.fingerprint import RequestSnapshot, count_kept_bytes, find_cache_break, split_sections
from palinurus.core.prompt.facts import PromptOptions
from palinurus.core.prompt.render import render_prompt
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, ToolCall, ToolResult, UserMessage
from palinurus.core.types.model import ModelRequest, ModelSpec, Prompt
from palinurus.core.types.tool import ToolSpec
from palinurus.sessions.entries import make_summary_message

MODEL = ModelSpec(ModelRef("fake", "m"), "x")
TOOLS = (ToolSpec("read", "reads", {"type": "object"}), ToolSpec("exec", "runs", {"type": "object"}))
TALK: tuple[Message, ...] = (
    UserMessage("hi", 1),
    AssistantMessage((TextBlock("let me look"), ToolCall("c1", "read", {"path": "a"}))),
    ToolResult("c1", "read", (TextBlock("content"),)),
    AssistantMessage((TextBlock("done"),)),
    UserMessage("thanks", 9),
)


def request(messages: tuple[Message, ...] = TALK, **changes: Any) -> ModelRequest:
    fields: dict[str, Any] = {"model": MODEL, "prompt": render_prompt(full()), "messages": messages, "tools": TOOLS}
    return ModelRequest(**{**fields, **changes})


def parting(one: ModelRequest, two: ModelRequest) -> Any:
    first = RequestSnapshot().after(one)
    return find_cache_break(first, first.after(two))


def test_growing_is_no_break() -> None:
    one, two = request(TALK[:1]), request(TALK)
    assert parting(one, two) is None
    first, second = RequestSnapshot().after(one), RequestSnapshot().after(two)
    assert count_kept_bytes(first.print, second.print) == first.print.size < second.print.size


def test_times_and_counts_are_not_sent() -> None:
    again = tuple(msgspec.structs.replace(m, timestamp=77) for m in TALK)
    assert parting(request(), request(again)) is None


def test_a_changed_section_is_named_with_its_byte() -> None:
    other = render_prompt(full(timezone="Europe/Paris"))
    found = parting(request(), request(prompt=other))
    assert (found.cause, found.group, found.name, found.note) == ("prompt", "stable", "time", "time changed")
    ours = render_prompt(full()).stable.encode()
    assert ours[: found.offset] == other.stable.encode()[: found.offset]
    assert ours[found.offset] != other.stable.encode()[found.offset]
    assert "Vienna" in found.before and "Paris" in found.after


def test_sections_that_come_and_go() -> None:
    less = render_prompt(full(skills=()))
    gone = parting(request(), request(prompt=less))
    assert (gone.name, gone.note) == ("skills", "gone: skills")
    came = parting(request(prompt=less), request())
    assert (came.name, came.note) == ("skills", "new: skills")


def test_below_the_boundary_it_is_the_chats() -> None:
    found = parting(request(), request(prompt=render_prompt(full(channel="telegram"))))
    assert (found.cause, found.group, found.name) == ("chat", "volatile", "embed")
    found = parting(request(), request(prompt=render_prompt(full(level="high"))))
    assert (found.name, found.before[12:15], found.after[12:16]) == ("runtime", "off", "high")


@pytest.mark.parametrize(
    ("tools", "note"),
    [
        ((*TOOLS, ToolSpec("web", "w", {})), "new: web"),
        (TOOLS[:1], "gone: exec"),
        (TOOLS[::-1], "the order changed"),
        ((TOOLS[0], ToolSpec("exec", "runs things", {"type": "object"})), "exec changed"),
    ],
)
def test_tools(tools: tuple[ToolSpec, ...], note: str) -> None:
    found = parting(request(), request(tools=tools))
    assert (found.cause, found.group, found.note) == ("tools", "tool", note)


def test_the_model() -> None:
    found = parting(request(), request(model=ModelSpec(ModelRef("fake", "n"), "x")))
    assert (found.cause, found.note, found.kept) == ("model", "fake/m -> fake/n", 0)


def test_history() -> None:
    changed = (*TALK[:2], ToolResult("c1", "read", (TextBlock("contents"),)), *TALK[3:])
    found = parting(request(), request(changed))
    assert (found.cause, found.name) == ("history", "3 tool result")
    assert "content" in found.before and "contents" in found.after and found.offset > 0
    assert parting(request(), request(TALK[:3])).note == "the last 2 messages were taken back"


def test_a_compaction_and_a_limit_are_told_from_a_rewrite() -> None:
    short = (make_summary_message("they greeted", 3), *TALK[4:], UserMessage("more"))
    assert parting(request(), request(short)).cause == "compaction"
    limited = parting(request(), request((*TALK[4:], UserMessage("more"))))
    assert (limited.cause, limited.note) == ("history limit", "the oldest 4 messages are not sent any more")


def test_only_new_messages_are_hashed() -> None:
    class Once(UserMessage, frozen=True, tag="user"):
        @property
        def blocks(self) -> Any:
            looked.append(self)
            return super().blocks

    looked: list[UserMessage] = []
    messages = tuple(Once(f"m{n}") for n in range(50))
    known = RequestSnapshot()
    for n in range(1, 51):
        known = known.after(request(messages[:n]))
    assert len(looked) == 50


def test_an_unseen_request_is_compared_by_hash() -> None:
    seen = RequestSnapshot().after(request())
    stored = RequestSnapshot(seen.print.model, seen.print.pieces)
    assert find_cache_break(stored, stored.after(request())) is None
    found = find_cache_break(stored, stored.after(request(prompt=render_prompt(full(knobs=PromptOptions())))))
    assert found is not None and found.group == "stable" and found.before == ""


def test_a_prompt_nobody_counted_is_two_pieces() -> None:
    made = split_sections(Prompt("a", "b"))
    assert made == [("stable", "the stable part", b"a"), ("volatile", "the volatile part", b"b")]
    whole = split_sections(render_prompt(full()))
    prompt = render_prompt(full())
    assert b"".join(t for g, _, t in whole if g == "stable").decode() == prompt.stable
    assert b"".join(t for g, _, t in whole if g == "volatile").decode() == prompt.volatile


words = st.lists(st.text(max_size=5), max_size=5)


@given(words, words, words)
def test_kept_is_the_common_beginning(head: list[str], one: list[str], two: list[str]) -> None:
    first = request(tuple(UserMessage(t) for t in head + one))
    second = request(tuple(UserMessage(t) for t in head + two))
    a, b = RequestSnapshot().after(first), RequestSnapshot().after(second)
    same = 0
    for was, now in zip(head + one, head + two, strict=False):
        if was != now:
            break
        same += 1
    base = len(b.print.pieces) - len(second.messages)
    assert count_kept_bytes(a.print, b.print) == sum(p.size for p in b.print.pieces[: base + same])
    assert (find_cache_break(a, b) is None) == (same == len(first.messages))
