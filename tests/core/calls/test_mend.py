"""JSON as small models write it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.calls.mend import parse_loose_json

CASES: list[tuple[str, Any]] = [
    ('{"a": 1}', {"a": 1}),
    ('{"a": 1,}', {"a": 1}),
    ('{"a": [1, 2,],}', {"a": [1, 2]}),
    ("{'a': 'x'}", {"a": "x"}),
    ("{'a': 'it's'}", {"a": "it's"}),
    ("{a: 1, b_c: 'x'}", {"a": 1, "b_c": "x"}),
    ('{"a": True, "b": None, "c": False}', {"a": True, "b": None, "c": False}),
    ('{"a": {"b": 1', {"a": {"b": 1}}),
    ('{"a": "unfinish', {"a": "unfinish"}),
    ('{"a": 1 "b": 2}', {"a": 1, "b": 2}),
    ('{"a": 1, // why\n "b": 2}', {"a": 1, "b": 2}),
    ('{"a": "line\nbreak"}', {"a": "line\nbreak"}),
    ('{"a": "C:\\Windows", }', {"a": "C:\\Windows"}),
    ('{"a": "\\u00e9", }', {"a": "é"}),
    ('{"a": "\\ud83d\\ude42", }', {"a": "🙂"}),
    ('{"a": "\\ud83d"}', {"a": "\ufffd"}),
    ('{"a": "say "hi" now"}', {"a": 'say "hi" now'}),
    ('{"a": ["x", "y",]}', {"a": ["x", "y"]}),
    ('{"a": 1.5e3,}', {"a": 1500.0}),
    ('{"a":', {}),
    ("[1, 2", [1, 2]),
]


@pytest.mark.parametrize(("text", "value"), CASES, ids=[c[0] for c in CASES])
def test_what_was_meant(text: str, value: Any) -> None:
    found = parse_loose_json(text)
    assert found is not None
    assert found.value == value


def test_the_schema_tells_where_a_string_ends() -> None:
    text = '{"path": "a.json", "content": "{"x": "1", "y": "2"}",}'
    found = parse_loose_json(text, 0, {"path", "content"})
    assert found is not None
    assert found.value == {"path": "a.json", "content": '{"x": "1", "y": "2"}'}


def test_other_names_than_the_schema_knows_are_kept() -> None:
    found = parse_loose_json("{'file': 'a', 'text': 'b'}", 0, {"path", "content"})
    assert found is not None
    assert found.value == {"file": "a", "text": "b"}


def test_where_it_ended_and_whether_it_was_cut() -> None:
    whole, cut = parse_loose_json('x{"a": 1,} y', 1), parse_loose_json('{"a": [1')
    assert whole is not None and (whole.end, whole.cut) == (10, False)
    assert cut is not None and cut.cut


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "12", '"a"', "{@}", '{"a": @}', '{"a" 1}', '{"a": NaN}', '{"a": 1e999}', '{"a": ' + "9" * 40 + "}"),
        *("[" * 100_000, '{"a":' * 100_000, "[" * 70 + "]" * 70),
    ],
    ids=lambda t: t[:12],
)
def test_what_cannot_be_kept_is_none(text: str) -> None:
    assert parse_loose_json(text) is None


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=8), _VALUES, max_size=4))
def test_proper_json_is_read_as_json(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    found = parse_loose_json(text + " and more")
    assert found is not None
    assert (found.value, found.end, found.cut) == (msgspec.json.decode(msgspec.json.encode(value)), len(text), False)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="{}[]'\":,\\ \n/*aTrueNon01.-e", max_size=60))
def test_it_never_raises_and_what_comes_out_can_be_stored(text: str) -> None:
    found = parse_loose_json(text)
    if found is not None:
        assert 0 < found.end <= len(text)
        msgspec.json.decode(msgspec.json.encode(found.value))
