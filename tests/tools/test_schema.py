"""Lenient coercion, other names, and errors that say what was expected."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.tools.collect import make_builtin_tools
from palinurus.tools.schema import check_arguments

EDIT = make_builtin_tools()["edit"]


def one(schema: dict[str, Any], value: Any) -> Any:
    args, problem = check_arguments(
        {"type": "object", "properties": {"x": schema}, "required": ["x"]}, {"x": value}, {}
    )
    return problem if problem is not None else args["x"]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("integer", "5", 5),
        ("integer", " -7 ", -7),
        ("integer", "5.0", 5),
        ("integer", 5.0, 5),
        ("integer", None, 0),
        ("integer", True, 1),
        ("number", "2.5", 2.5),
        ("number", "1e3", 1000.0),
        ("number", ".5", 0.5),
        ("number", None, 0),
        ("boolean", "true", True),
        ("boolean", "False", False),
        ("boolean", 1, True),
        ("boolean", 0, False),
        ("boolean", "yes", True),
        ("boolean", None, False),
        ("string", 5, "5"),
        ("string", 2.5, "2.5"),
        ("string", True, "true"),
        ("string", None, ""),
        ("string", "5", "5"),
        ("string", "a\ud800b", "a\ufffdb"),
        ("array", '["a", 1]', ["a", 1]),
        ("array", "a", ["a"]),
        ("array", None, []),
        ("array", {"k": 1}, [{"k": 1}]),
        ("object", '{"a": 1}', {"a": 1}),
        ("object", None, {}),
        ("null", "null", None),
    ],
)
def test_coercion(kind: str, value: Any, expected: Any) -> None:
    got = one({"type": kind}, value)
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    ("schema", "value", "says"),
    [
        ({"type": "integer"}, "five", "expected an integer, got 'five'"),
        ({"type": "integer"}, 5.5, "expected an integer, got 5.5"),
        ({"type": "integer"}, "1_0", "expected an integer"),
        ({"type": "integer"}, "9" * 5000, "expected an integer"),
        ({"type": "integer"}, [1], "got an array"),
        ({"type": "number"}, float("nan"), "expected a number"),
        ({"type": "number"}, float("inf"), "expected a number"),
        ({"type": "number"}, "nan", "expected a number"),
        ({"type": "boolean"}, "maybe", "expected true or false"),
        ({"type": "boolean"}, 2, "expected true or false"),
        ({"type": "string"}, ["ls", "-l"], "expected a string, got an array"),
        ({"type": "string"}, {"a": 1}, "expected a string, got an object"),
        ({"type": "object"}, "{broken", "expected an object, got text"),
        ({"type": "object"}, "[" * 200_000, "expected an object"),
        ({"type": "string", "enum": ["on", "off"]}, "maybe", "expected one of on, off"),
        ({"type": "integer", "minimum": 1}, 0, "at least 1"),
        ({"type": "integer", "maximum": 9}, 10, "at most 9"),
        ({"type": "string", "maxLength": 2}, "abc", "at most 2 characters"),
        ({"type": "array", "minItems": 1}, [], "at least 1 items"),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, "x", "integer"),
    ],
)
def test_what_cannot_be_mended_is_explained(schema: dict[str, Any], value: Any, says: str) -> None:
    problem = one(schema, value)
    assert isinstance(problem, str)
    assert says in problem
    assert "Expected: x (" in problem and "Example: {" in problem


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5", "5"),  # text is allowed: text stays
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "5", 5),
        ({"type": ["integer", "null"]}, None, None),
        ({"oneOf": [{"type": "boolean"}, {"type": "array"}]}, '["a"]', ["a"]),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, True, True),
        ({"type": "string", "enum": ["Markdown", "text"]}, "markdown", "Markdown"),
        ({}, {"free": [1]}, {"free": [1]}),
    ],
)
def test_unions_try_each_member(schema: dict[str, Any], value: Any, expected: Any) -> None:
    assert one(schema, value) == expected


def test_claude_style_names_are_understood() -> None:
    args, problem = check_arguments(
        EDIT.parameters, {"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}]}, EDIT.aliases
    )
    assert problem is None
    assert args == {"path": "a", "edits": [{"oldText": "x", "newText": "y"}]}


def test_the_single_form_of_edit_becomes_a_list() -> None:
    args, problem = check_arguments(
        EDIT.parameters, {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": False}, EDIT.aliases
    )
    assert problem is None
    assert args == {"path": "a", "edits": [{"oldText": "x", "newText": "y"}]}


def test_edits_as_json_text() -> None:
    args, problem = check_arguments(
        EDIT.parameters, {"path": "a", "edits": '[{"oldText":"x","newText":"y"}]'}, EDIT.aliases
    )
    assert (args["edits"], problem) == ([{"oldText": "x", "newText": "y"}], None)


def test_case_and_underscores_do_not_matter_and_our_name_wins() -> None:
    grep = make_builtin_tools()["grep"]
    args, _ = check_arguments(grep.parameters, {"Pattern": "x", "ignore_case": "true"}, grep.aliases)
    assert args == {"pattern": "x", "ignoreCase": True}
    args, _ = check_arguments(EDIT.parameters, {"path": "ours", "file_path": "theirs", "edits": []}, EDIT.aliases)
    assert args["path"] == "ours"


def test_missing_and_unknown_are_named() -> None:
    args, problem = check_arguments(EDIT.parameters, {"pth": "a"}, EDIT.aliases)
    assert args == {}
    assert problem is not None
    assert "missing required arguments: path, edits" in problem
    assert "unknown: pth" in problem
    assert '"edits": [{"oldText": "<oldText>", "newText": "<newText>"}]' in problem


def test_null_for_an_optional_argument_means_not_given() -> None:
    read = make_builtin_tools()["read"]
    assert check_arguments(read.parameters, {"path": "a", "limit": None, "nonsense": 1}, read.aliases) == (
        {"path": "a"},
        None,
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a.py</path>", "a.py"),
        ("a.py</parameter>\n</invoke>", "a.py"),
        ("a.py</arg_value>>", "a.py"),
        ("echo '<path>x</path>'", "echo '<path>x</path>'"),
        ("a > b</path>", "a > b"),
        ("</path>", "</path>"),
        ("a<b>", "a<b>"),
    ],
)
def test_stray_closing_tags_are_stripped(value: str, expected: str) -> None:
    read = make_builtin_tools()["read"]
    assert check_arguments(read.parameters, {"path": value}, {}) == ({"path": expected}, None)


def test_file_content_is_never_stripped() -> None:
    write = make_builtin_tools()["write"]
    args, _ = check_arguments(write.parameters, {"path": "a", "content": "x</parameter>"}, write.aliases)
    assert args["content"] == "x</parameter>"


def test_free_objects_keep_their_names() -> None:
    tool = make_builtin_tools()["exec"]
    args, problem = check_arguments(tool.parameters, {"command": "x", "env": {"A": 1, "B": True}}, tool.aliases)
    assert (args["env"], problem) == ({"A": "1", "B": "true"}, None)


@pytest.mark.parametrize("args", [None, 5, "text", [], [1], "[]", "{broken"])
def test_arguments_that_are_no_object(args: Any) -> None:
    got, problem = check_arguments(EDIT.parameters, args, {})
    assert got == {}
    assert problem is not None and "must be an object" in problem


def test_depth_is_bounded() -> None:
    deep: Any = "x"
    for _ in range(20_000):
        deep = [deep]
    _, problem = check_arguments({"type": "object", "properties": {"x": {}}}, {"x": deep}, {})
    assert problem is not None and "nested too deeply" in problem


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null", "odd", None])
FITS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


@settings(max_examples=150, deadline=None)
@given(kind=TYPES, value=JSON)
def test_any_value_is_right_or_refused(kind: str | None, value: Any) -> None:
    args, problem = check_arguments(
        {"type": "object", "properties": {"x": {"type": kind}}, "required": ["x"]}, {"x": value}, {}
    )
    if problem is None and kind in FITS:
        assert isinstance(args["x"], FITS[kind])
    again, _ = check_arguments({"type": "object", "properties": {"x": {"type": kind}}, "required": ["x"]}, args, {})
    assert problem is not None or again == args  # what was mended needs no mending


@settings(max_examples=100, deadline=None)
@given(args=JSON, name=st.sampled_from(sorted(make_builtin_tools())))
def test_hostile_arguments_never_raise(args: Any, name: str) -> None:
    tool = make_builtin_tools()[name]
    got, problem = check_arguments(tool.parameters, args, tool.aliases)
    assert problem is None or got == {}
    assert set(got) <= set(tool.parameters["properties"])
