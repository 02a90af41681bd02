"""JSON Schema as answers are checked by it, beside the library everybody uses."""

from __future__ import annotations

import time
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.jsonschema import find_violations, is_cheap_pattern, list_unsupported

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from([1.0, 1.5, -2.5])
    | st.sampled_from(["", "a", "ab", "b1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
NUMBER = st.integers(-3, 3)
SIMPLE = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null",
                                 ["string", "null"]]),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "minimum": NUMBER, "maximum": NUMBER, "exclusiveMinimum": NUMBER, "exclusiveMaximum": NUMBER,
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": st.integers(0, 2), "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(["^a", "b$", "[0-9]+"]),
        "minItems": st.integers(0, 2), "maxItems": st.integers(0, 2), "uniqueItems": st.booleans(),
        "minProperties": st.integers(0, 2), "maxProperties": st.integers(0, 2),
        "required": st.lists(st.sampled_from("abc"), unique=True, max_size=2),
        "title": st.just("t"), "$ref": st.just("#/$defs/x"),
    },
)  # fmt: skip
SCHEMAS = st.recursive(
    SIMPLE,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["array", "object"]),
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "additionalProperties": st.booleans() | inner,
            "items": inner | st.booleans(),
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
        },
    ),
    max_leaves=6,
)


@given(SCHEMAS, SIMPLE.map(lambda one: {k: v for k, v in one.items() if k != "$ref"}), VALUES)
def test_it_says_what_the_reference_says(schema: dict[str, Any], inner: dict[str, Any], value: Any) -> None:
    schema = {**schema, "$defs": {"x": inner}}
    assert list_unsupported(schema) == []
    fits = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (find_violations(schema, value) == []) is fits, find_violations(schema, value)


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ([], "must be an object"),
        ({"if": {}}, "'if' is not supported"),
        ({"properties": {"a": {"patternProperties": {}}}}, "#/properties/a"),
        ({"type": "text"}, "no type 'text'"),
        ({"$ref": "https://example.com/s"}, "inside the schema"),
        ({"$ref": "#/$defs/missing"}, "inside the schema"),
        ({"pattern": "(a+)+$"}, "not supported"),
        ({"pattern": "("}, "not supported"),
        ({"required": "a"}, "wrong form"),
        ({"minimum": "1"}, "must be a number"),
        ({"items": 3}, "no schema"),
        ({"multipleOf": 0}, "multipleOf"),
        ({"description": "x" * 300_000}, "larger"),
    ],
)
def test_what_cannot_be_promised_is_named(schema: Any, word: str) -> None:
    assert word in " ".join(list_unsupported(schema))


@pytest.mark.parametrize(
    "bad", ["(a+)+", "(a|a)*b", "(?:x*)*", "((ab)*c)+", "(a?)+", r"(a)\1", "a*b*c*", "(a{1,9}){2,}"]
)
def test_patterns_that_could_take_for_ever_are_refused(bad: str) -> None:
    assert not is_cheap_pattern(bad)


@pytest.mark.parametrize(
    "good", [r"^\d{4}-\d{2}-\d{2}$", "^[a-z]+$", r"^[\w.+-]+@[a-z.]+$", "^(red|green)$", "^(ab){2}$"]
)
def test_patterns_that_people_write_are_taken(good: str) -> None:
    assert is_cheap_pattern(good)


def test_depth_and_references_in_circles_end() -> None:
    circle = {"$ref": "#"}
    assert list_unsupported(circle) == [] and find_violations(circle, 1)
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}
    assert find_violations(tree, {"next": {"next": {}}}) == [] and find_violations(tree, {"next": {"other": 1}})
    began = time.process_time()
    find_violations({"pattern": "a+b+$"}, "a" * 400)
    find_violations({"pattern": "a+$"}, "a" * 3000 + "!")
    assert time.process_time() - began < 20  # not for ever; no measure of speed
