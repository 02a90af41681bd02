"""Results within bounds."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.types.messages import Image, Text
from palinurus.tools.cut import MAX_IMAGE, cut, middle, shown, storable_details


def test_small_results_are_untouched() -> None:
    blocks = (Text("hello"), Image("aGk=", "image/png"))
    assert cut(blocks, 100) == blocks
    assert cut(blocks, 100)[0] is blocks[0]


def test_long_text_keeps_head_and_tail_and_says_what_is_gone() -> None:
    text = "H" * 500 + "M" * 1000 + "T" * 500
    got = shown(text, 300)
    assert got.startswith("H" * 200 + "\n")
    assert got.endswith("\n" + "T" * 100)
    assert "[… 1700 characters left out …]" in got


def test_json_is_laid_out_before_it_is_cut() -> None:
    value = {"items": [{"name": f"n{i}", "size": i} for i in range(200)]}
    got = shown(json.dumps(value), 600)
    assert got.startswith('{\n  "items": [\n    {\n      "name": "n0",')
    assert "left out" in got
    assert shown('{"a":1}', 600) == '{"a":1}'


def test_broken_and_bottomless_json_is_cut_as_text() -> None:
    assert shown("[" * 100_000, 100).startswith("[[[")


def test_binary_is_described() -> None:
    assert shown("\x00\x01\x02" * 50, 1000) == "[binary data, 150 characters, not shown]"
    assert shown("\x1b[31mred text, plainly readable\x1b[0m", 1000).startswith("\x1b[31m")


def test_the_limit_is_for_all_blocks_together() -> None:
    got = cut((Text("a" * 90), Text("b" * 90)), 100)
    assert got[0] == Text("a" * 90)
    assert isinstance(got[1], Text) and got[1].text.count("b") == 10


def test_huge_images_are_left_out() -> None:
    (block,) = cut((Image("A" * (MAX_IMAGE + 1), "image/png"),), 100)
    assert isinstance(block, Text) and "image left out" in block.text


@pytest.mark.parametrize("value", [object(), {"a": object()}, {1, object()}, "\ud800"])
def test_details_that_cannot_be_stored(value: object) -> None:
    got = storable_details(value)
    msgspec.json.encode(got)
    assert "omitted" in got


def test_details_are_bounded() -> None:
    assert storable_details({"a": 1}) == {"a": 1}
    assert storable_details(None) is None
    assert storable_details({"a": "x" * 100_000}) == {"omitted": "100008 bytes"}


@given(st.text(st.characters(), max_size=400), st.integers(1, 200))
def test_any_text_comes_out_storable_and_bounded(text: str, limit: int) -> None:
    got = shown(text, limit)
    msgspec.json.encode(got)
    assert len(got) <= limit + 60


@given(st.text(max_size=300), st.integers(1, 100))
def test_what_is_kept_is_really_the_beginning_and_the_end(text: str, limit: int) -> None:
    got = middle(text, limit)
    if len(text) <= limit:
        assert got == text
    else:
        assert got[: limit - limit // 3] == text[: limit - limit // 3]
        assert got.endswith(text[len(text) - limit // 3 :])
