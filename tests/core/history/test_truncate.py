"""Results within bounds, and a mark that leads to the rest."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.history import truncate
from palinurus.core.history.truncate import cap, handle, known, laid_out, line_at, pages, results, share, shorten, where
from palinurus.core.types.messages import Assistant, Image, Message, Text, ToolCall, ToolResult, User

KEPT = "0123456789abcdef"


@pytest.mark.parametrize(
    ("window", "wanted", "expected"),
    [
        (32_000, None, 16_000),
        (99_999, None, 16_000),
        (100_000, None, 32_000),
        (199_999, None, 32_000),
        (200_000, None, 64_000),
        (1_000_000, None, 64_000),
        (8_000, None, 9_600),  # 30 % of the window
        (1_000, None, 2_000),  # never less
        (200_000, 100_000, 100_000),
        (200_000, 500_000, 240_000),
        (0, None, 16_000),
    ],
)
@pytest.mark.seed(326)
def test_the_cap_follows_the_window(window: int, wanted: int | None, expected: int) -> None:
    assert cap(window, wanted) == expected


def test_results_of_one_answer_share_their_room() -> None:
    assert [share(64_000, n) for n in (1, 2, 4, 8, 64)] == [64_000, 64_000, 32_000, 16_000, 2_000]


def test_a_plain_text_keeps_its_head() -> None:
    text = "\n".join(f"line {n} of many" for n in range(5000))
    short = shorten(text, 4000, KEPT)
    head, _, mark = short.partition("\n[…")
    assert text.startswith(head) and text[len(head)] == "\n"  # whole lines
    assert where(KEPT, head.count("\n") + 1) in mark
    assert short.endswith("…]")


@pytest.mark.parametrize(
    "ending", ["ValueError: no such thing\n", "exit code 2", "12 passed, total 3 s", '  "a": 1\n}']
)
def test_an_important_end_stays(ending: str) -> None:
    text = "x = 1\n" * 3000 + ending
    short = shorten(text, 4000)
    assert short.endswith(ending)
    assert short.startswith("x = 1\nx = 1\n")
    assert "ask for a smaller part" in short


def test_the_mark_counts_what_is_gone() -> None:
    text = "a b " * 3_000 + "error" + " c" * 100
    short = shorten(text, 2000)
    head, rest = short.split("\n[… ")
    tail = rest.partition("…]\n")[2]
    assert int(rest.split()[0]) == len(text) - len(head) - len(tail)
    assert text.endswith(tail) and tail


def test_base64_is_summarised_before_anything_is_cut() -> None:
    text = "before " + "QUJD" * 5000 + "= after the picture: all is well"
    short = shorten(text, 4000, KEPT)
    assert short.startswith("before [base64 data, 20001 characters, not shown] after the picture: all is well\n[…")
    assert where(KEPT, 1) in short
    many = "data:image/png;base64," + "QUJD" * 5000 + "\n" + "word " * 2000
    short = shorten(many, 4000, KEPT)
    assert "base64 data, 20022" in short
    line = int(short.partition("offset=")[2].split()[0])
    assert pages(many)[line - 1].startswith("word ") or "word" in pages(many)[line - 1]


def test_json_is_laid_out_once() -> None:
    value = json.dumps({"items": [{"name": "ü"}] * 3}, ensure_ascii=False)
    assert laid_out(value).startswith('{\n  "items": [\n    {\n      "name": "ü"')
    assert laid_out(laid_out(value)) == laid_out(value)
    assert laid_out("[" * 100_000) == "[" * 100_000
    assert laid_out("no json") == "no json"


@given(st.text(max_size=6000), st.integers(400, 3000), st.sampled_from(["", KEPT]))
def test_never_longer_than_the_limit_and_stable(text: str, limit: int, kept: str) -> None:
    short = shorten(text, limit, kept)
    assert len(short) <= max(limit, len(text) if len(text) <= limit else limit)
    assert shorten(short, limit, kept) == short
    assert (short == text) == (len(text) <= limit)
    assert known(short) in ("", kept)


@given(
    st.lists(st.sampled_from(["\n", "x" * 1999, "y" * 2000, "z" * 2001, "ab", "\r\n", "\u2028"]), max_size=12),
    st.data(),
)
def test_pages_are_the_text_and_lines_can_be_found(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    lines = pages(text)
    assert "".join(lines) == text
    assert all(len(line) <= truncate.WIDE for line in lines)
    if text:
        index = data.draw(st.integers(0, len(text) - 1))
        line = line_at(text, index)
        before = sum(len(one) for one in lines[: line - 1])
        assert before <= index < before + len(lines[line - 1])


def test_results_of_the_history_are_bounded_and_keep_their_handle() -> None:
    whole = "\n".join(f"row {n}" for n in range(20_000))
    seen = shorten(whole, 64_000, handle(whole))
    history: tuple[Message, ...] = (
        User("x" * 100_000),
        Assistant((ToolCall("a", "exec", {}),), stopReason="toolUse"),
        ToolResult("a", "exec", (Text(seen), Image("aaaa", "image/png"))),
    )
    assert results(history, 64_000) == history
    small = results(history, 16_000)
    assert small[:2] == history[:2]
    last = small[2]
    assert isinstance(last, ToolResult) and len(last.text) <= 16_000
    assert known(last.text) == handle(whole)
    assert last.content[1] == Image("aaaa", "image/png")
    assert results(small, 16_000) == small


@pytest.mark.parametrize(
    "piece", ["a" * 1499 + " ", "data:image/png;base64,", "data:" * 3, "error", "\n", "[", '{"a":', "x" * 3000]
)
def test_hostile_texts_take_no_longer_than_others(piece: str) -> None:
    """A text that took quadratic time would not come back from here."""
    text = piece * (1_500_000 // len(piece))
    assert len(shorten(laid_out(text), 2000, KEPT)) <= 2000
