"""Results within bounds, and a mark that leads to the rest."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.history import truncate
from palinurus.core.history.truncate import (
    find_page_line,
    find_result_handle,
    indent_json,
    limit_result_chars,
    make_read_hint,
    make_result_handle,
    share_result_chars,
    shorten_result,
    shorten_results,
    split_pages,
)
from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)

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
    assert limit_result_chars(window, wanted) == expected


def test_results_of_one_answer_share_their_room() -> None:
    assert [share_result_chars(64_000, n) for n in (1, 2, 4, 8, 64)] == [64_000, 64_000, 32_000, 16_000, 2_000]


def test_a_plain_text_keeps_its_head_and_the_last_lines() -> None:
    text = "\n".join(f"line {n} of many" for n in range(5000))
    short = shorten_result(text, 4000, KEPT)
    head, _, rest = short.partition("\n[…")
    mark, _, tail = rest.partition("…]\n")
    assert text.startswith(head) and text[len(head)] == "\n"  # whole lines
    assert make_read_hint(KEPT, head.count("\n") + 1) in mark
    assert tail.startswith("line ") and text.endswith(f"\n{tail}") and 100 < len(tail) < 400


@pytest.mark.parametrize(
    "ending", ["ValueError: no such thing\n", "exit code 2", "12 passed, total 3 s", '  "a": 1\n}']
)
def test_an_important_end_stays(ending: str) -> None:
    text = "x = 1\n" * 3000 + ending
    short = shorten_result(text, 4000)
    assert short.endswith(ending)
    assert short.startswith("x = 1\nx = 1\n")
    assert "ask for a smaller part" in short


def test_the_mark_counts_what_is_gone() -> None:
    text = "a b " * 3_000 + "error" + " c" * 100
    short = shorten_result(text, 2000)
    head, rest = short.split("\n[… ")
    tail = rest.partition("…]\n")[2]
    assert int(rest.split()[0]) == len(text) - len(head) - len(tail)
    assert text.endswith(tail) and tail


def test_base64_is_summarised_before_anything_is_cut() -> None:
    text = "before " + "QUJD" * 5000 + "= after the picture: all is well"
    short = shorten_result(text, 4000, KEPT)
    assert short.startswith("before [base64 data, 20001 characters, not shown] after the picture: all is well\n[…")
    assert make_read_hint(KEPT, 1) in short
    many = "data:image/png;base64," + "QUJD" * 5000 + "\n" + "word " * 2000
    short = shorten_result(many, 4000, KEPT)
    assert "base64 data, 20022" in short
    line = int(short.partition("offset=")[2].split()[0])
    assert split_pages(many)[line - 1].startswith("word ") or "word" in split_pages(many)[line - 1]


def test_json_is_laid_out_once() -> None:
    value = json.dumps({"items": [{"name": "ü"}] * 3}, ensure_ascii=False)
    assert indent_json(value).startswith('{\n  "items": [\n    {\n      "name": "ü"')
    assert indent_json(indent_json(value)) == indent_json(value)
    assert indent_json("[" * 100_000) == "[" * 100_000
    assert indent_json("no json") == "no json"


@given(st.text(max_size=6000), st.integers(400, 3000), st.sampled_from(["", KEPT]))
def test_never_longer_than_the_limit_and_stable(text: str, limit: int, kept: str) -> None:
    short = shorten_result(text, limit, kept)
    assert len(short) <= max(limit, len(text) if len(text) <= limit else limit)
    assert shorten_result(short, limit, kept) == short
    assert (short == text) == (len(text) <= limit)
    assert find_result_handle(short) in ("", kept)


@given(
    st.lists(st.sampled_from(["\n", "x" * 1999, "y" * 2000, "z" * 2001, "ab", "\r\n", "\u2028"]), max_size=12),
    st.data(),
)
def test_pages_are_the_text_and_lines_can_be_found(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    lines = split_pages(text)
    assert "".join(lines) == text
    assert all(len(line) <= truncate.PAGE_WIDTH for line in lines)
    if text:
        index = data.draw(st.integers(0, len(text) - 1))
        line = find_page_line(text, index)
        before = sum(len(one) for one in lines[: line - 1])
        assert before <= index < before + len(lines[line - 1])


def test_results_of_the_history_are_bounded_and_keep_their_handle() -> None:
    whole = "\n".join(f"row {n}" for n in range(20_000))
    seen = shorten_result(whole, 64_000, make_result_handle(whole))
    history: tuple[Message, ...] = (
        UserMessage("x" * 100_000),
        AssistantMessage((ToolCall("a", "exec", {}),), stopReason="toolUse"),
        ToolResult("a", "exec", (TextBlock(seen), ImageBlock("aaaa", "image/png"))),
    )
    assert shorten_results(history, 64_000) == history
    small = shorten_results(history, 16_000)
    assert small[:2] == history[:2]
    last = small[2]
    assert isinstance(last, ToolResult) and len(last.text) <= 16_000
    assert find_result_handle(last.text) == make_result_handle(whole)
    assert last.content[1] == ImageBlock("aaaa", "image/png")
    assert shorten_results(small, 16_000) == small


@pytest.mark.parametrize(
    "piece", ["a" * 1499 + " ", "data:image/png;base64,", "data:" * 3, "error", "\n", "[", '{"a":', "x" * 3000]
)
def test_hostile_texts_take_no_longer_than_others(piece: str) -> None:
    """A text that took quadratic time would not come back from here."""
    text = piece * (1_500_000 // len(piece))
    assert len(shorten_result(indent_json(text), 2000, KEPT)) <= 2000
