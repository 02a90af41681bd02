"""A plugin's config against its schema."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.plugins.manifest import check_schema, fill_defaults

SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["url"],
    "properties": {
        "url": {"type": "string", "minLength": 3, "pattern": "^http"},
        "mode": {"enum": ["fast", "slow"], "default": "fast"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "deep": {"type": "object", "properties": {"on": {"type": ["boolean", "null"], "default": True}}},
        "either": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["id"]}]},
    },
}
BASE = ("plugins", "entries", "x", "config")


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ({}, (), "the key 'url' is missing"),
        ({"url": 3}, ("url",), "expected string"),
        ({"url": "ftp:"}, ("url",), "must match ^http"),
        ({"url": "h"}, ("url",), "must have at least 3 characters"),
        ({"url": "http", "mode": "fats"}, ("mode",), "must be one of fast, slow"),
        ({"url": "http", "count": 10}, ("count",), "must be 9 or less"),
        ({"url": "http", "count": True}, ("count",), "expected integer"),
        ({"url": "http", "tags": ["a", 1]}, ("tags", 1), "expected string"),
        ({"url": "http", "tags": ["a", "b", "c"]}, ("tags",), "must have at most 2 items"),
        ({"url": "http", "deep": {"on": "yes"}}, ("deep", "on"), "expected boolean or null"),
        ({"url": "http", "either": {"x": 1}}, ("either",), "is none of the kinds that are allowed here"),
        ({"url": "http", "uri": 1}, ("uri",), "unknown key"),
    ],
)
def test_what_is_wrong_and_where(value: Any, path: tuple[Any, ...], message: str) -> None:
    assert (message, (*BASE, *path)) in [(f.message, f.path) for f in check_schema(SCHEMA, value, BASE)]


def test_a_good_config_and_its_defaults() -> None:
    value = {"url": "http://x", "deep": {}, "either": {"id": 1}}
    assert check_schema(SCHEMA, value, BASE) == []
    assert fill_defaults(SCHEMA, value) == {**value, "mode": "fast", "count": 2, "deep": {"on": True}}


def test_no_message_quotes_a_value() -> None:
    bad = {"url": "sekrit", "mode": "sekrit", "uri": "sekrit", "deep": "sekrit", "either": ["sekrit"]}
    told = check_schema(SCHEMA, bad, BASE)
    assert len(told) == 5 and not any("sekrit" in f"{f.message} {f.hint}" for f in told)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "enum", "items", "anyOf",
        "properties", "required", "minimum", "pattern", "const", "x"]), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@given(JSON, JSON)
def test_no_schema_and_no_value_break_it(schema: Any, value: Any) -> None:
    assert isinstance(check_schema(schema, value, ()), list)
    if isinstance(value, dict):
        assert fill_defaults(schema, value).keys() >= value.keys()
