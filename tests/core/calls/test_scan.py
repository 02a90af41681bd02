"""Written calls are found at every cut; what is none comes out unchanged."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.calls.kit import NEGATIVES, POSITIVES, TOOLS, told
from palinurus.core.calls.forms import CallableTools
from palinurus.core.calls.scan import MAX_HELD, TextCallScanner


@pytest.mark.parametrize(("text", "calls", "around"), POSITIVES, ids=[p[0][:40] for p in POSITIVES])
def test_calls_are_found_at_every_cut(text: str, calls: list[tuple[str, dict[str, object]]], around: str) -> None:
    for size in (len(text), 1, 2, 3, 7):
        shown, found = told(text, list(range(size, len(text), size)))
        assert [(c.name, c.arguments) for c in found] == calls
        assert not any(c.invalid for c in found)
        assert shown == around
    for cut in range(len(text)):
        assert [(c.name, c.arguments) for c in told(text, [cut])[1]] == calls


@pytest.mark.parametrize("text", NEGATIVES, ids=[n[:40] for n in NEGATIVES])
def test_what_is_no_call_comes_out_unchanged(text: str) -> None:
    for size in (max(1, len(text)), 1, 2, 3, 7):
        assert told(text, list(range(size, len(text), size))) == (text, [])


_WORDS = st.sampled_from(
    [p[0] for p in POSITIVES]
    + NEGATIVES
    + [
        "\n",
        "\n\n",
        "```",
        "```json\n",
        "`",
        "{",
        "[",
        "<",
        "<think>",
        "</think>",
        "~~~",
        '{"name": "',
        "read",
        "é🙂",
        " " * 90,
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(_WORDS, st.text(max_size=12)), max_size=6), st.data())
def test_the_same_result_however_it_is_cut(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12))
    assert told(text, cuts) == told(text) == told(text, list(range(len(text))))


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="{}[]()<>|=/`~\"':,; \n\\namergutlscfdo_", max_size=200))
def test_no_text_is_lost(text: str) -> None:
    shown, calls = told(text)
    assert calls or shown == text


def test_prose_flows_at_once() -> None:
    scan = TextCallScanner(CallableTools(TOOLS))
    assert scan.feed("Hello") == "Hello"
    assert scan.feed(" wor") == " wor"
    assert scan.feed("ld.\nNext") == "ld.\nNext"
    assert scan.feed(" <tool") == " "
    assert scan.feed(" box>") == "<tool box>"
    assert scan.feed("\n```py\nx = {1}\n") == "\n```py\nx = {1}"


def test_a_call_that_may_begin_holds_the_rest() -> None:
    scan = TextCallScanner(CallableTools(TOOLS))
    assert scan.feed('Look:\n<tool_call>{"name": "ls"') == "Look:\n"
    assert scan.feed(" more") == ""
    assert scan.held() == '<tool_call>{"name": "ls" more'


def test_a_rest_that_is_too_long_is_text() -> None:
    text = '<tool_call>{"name": "write", "arguments": {"content": "' + "x" * MAX_HELD + '"}}</tool_call>'
    assert told(text) == (text, [])


def test_hostile_openings_end() -> None:
    for text in (
        "[ls(\n" * 20_000,
        "<tool_call>" * 20_000,
        "{" * 50_000,
        '{"name": "ls", "arguments": ' * 5000,
        "\n" * 50_000,
    ):
        assert told(text) == (text, [])
