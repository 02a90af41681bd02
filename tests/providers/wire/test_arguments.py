"""Arguments of tool calls as models write them: read leniently, refused with a reason, never raised."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.providers.wire.arguments import BodyEncoder, encode_json, parse_arguments, scrub_surrogates


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("  \n", {}),
        ("{}", {}),
        ('{"a": 1, "b": [true, null, 1.5]}', {"a": 1, "b": [True, None, 1.5]}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('{"a": "one\ntwo\tthree"}', {"a": "one\ntwo\tthree"}),
        ('{"a": "\\ud83e\\udd9e"}', {"a": "🦞"}),
        ('{"a": "x\\ud800y"}', {"a": "x\ufffdy"}),
        ('{"a": 18446744073709551615}', {"a": 2**64 - 1}),
    ],
)
def test_read(text: str, value: dict[str, Any]) -> None:
    assert parse_arguments(text) == (value, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": ', "not valid JSON"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "Infinity"),
        ('{"a": 1e999}', "too large"),
        ("[1]", "an array"),
        ('"x"', "a string"),
        ("null", "null"),
        ("3", "a number"),
        ('{"a": ' + "9" * 5000 + "}", "digits"),
        ('{"a": 99999999999999999999999}', "64 bits"),
        ('{"a":' * 100_000, "nested"),
        ("[" * 100_000 + "]" * 100_000, "nested"),
        ('{"a":' * 100 + "1" + "}" * 100, "nested"),
        ('{"a": "' + "x" * 9_000_000 + '"}', "longer"),
    ],
    ids=lambda v: v[:20],
)
def test_refused_with_a_reason(text: str, words: str) -> None:
    value, why = parse_arguments(text)
    assert value == {}
    assert why is not None and words in why
    assert len(why) < 200


def test_five_megabytes_are_read() -> None:
    value, why = parse_arguments('{"content": "' + "x" * 5_000_000 + '"}')
    assert why is None and len(value["content"]) == 5_000_000


@given(st.text(max_size=80))
def test_anything_is_answered_and_can_be_stored(text: str) -> None:
    value, _ = parse_arguments(text)
    msgspec.json.encode(value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
        lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(st.characters(codec=None)), v, max_size=3),
        max_leaves=10,
    )
)
def test_whatever_python_can_write_is_answered_and_can_be_stored(value: Any) -> None:
    got, why = parse_arguments(json.dumps({"a": value}))
    assert why is not None or "a" in got
    msgspec.json.encode(got)


def test_scrub_joins_pairs_and_replaces_halves() -> None:
    assert scrub_surrogates({"a\ud800": ["\ud83e\udd9e", ("\udfff",)], "n": 1}) == {
        "a\ufffd": ["🦞", ["\ufffd"]],
        "n": 1,
    }


def test_bodies_are_byte_for_byte_what_they_would_be_without_memory() -> None:
    bodies, asked, other = BodyEncoder(), (object(),), (object(),)

    def tools(limit: object) -> list[dict[str, Any]]:
        return [{"name": "t\ud800ö", "limit": limit, "more": {"a": [1, "x"]}}]

    for tried, body in (
        (asked, {"model": "m", "tools": tools(1), "stream": True}),
        (asked, {"model": "n", "tools": tools(1), "text": "half \ud800"}),
        (asked, {"tools": tools(2)}),  # another vendor's shape of the same
        (other, {"tools": tools(True)}),
        (asked, {"tools": tools(1)}),
        ((), {"tools": [], "model": "m"}),
        ((), {"model": "m"}),
    ):
        assert bodies.encode(body, tried) == encode_json(body)
    with pytest.raises(TypeError):
        bodies.encode({"tools": [{"x": object()}]}, other)
    assert bodies.encode({"tools": tools(1)}, other) == encode_json({"tools": tools(1)})
