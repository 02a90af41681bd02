import json
from typing import Any

import pyjson5
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.config.lines import find_line, scan_json

SAMPLE = """\
// a comment
{
  gateway: {           // line 3
    "port": 18789,
    'bind': "loop\\
back",
  }, /* long
  comment */ tools: { deny: ["a",
      "b"] },
  \\u0061b: +1e3,
}
"""


def test_lines_of_a_sample() -> None:
    found = scan_json(SAMPLE)
    assert found.fault is None
    assert found.comments
    lines = {path: node.line for path, node in found.nodes.items()}
    assert lines == {
        (): 2,
        ("gateway",): 3,
        ("gateway", "port"): 4,
        ("gateway", "bind"): 5,
        ("tools",): 8,
        ("tools", "deny"): 8,
        ("tools", "deny", 0): 8,
        ("tools", "deny", 1): 9,
        ("ab",): 10,
    }
    port = found.nodes["gateway", "port"]
    assert SAMPLE[port.start : port.end] == "18789"
    assert SAMPLE[port.comma] == ","
    assert port.quoted
    assert not found.nodes[("gateway",)].quoted


def test_a_missing_key_has_the_line_of_what_is_around_it() -> None:
    found = scan_json(SAMPLE)
    assert found.line(("gateway", "auth", "token")) == 3
    assert found.line(("nowhere",)) == 2


@pytest.mark.parametrize(
    ("text", "line", "path", "message"),
    [
        ("", 1, (), "empty"),
        ("\n\n", 3, (), "empty"),
        ('{\n  "a": 1\n  "b": 2\n}', 2, ("a",), "expected , or }"),
        ("{\n a: [1\n 2]\n}", 2, ("a", 0), "expected , or ]"),
        ('{\n "a": {\n "b": 1\n', 2, ("a",), "never closed"),
        ('{\n\n "a": "x\n}', 3, ("a",), "a text is never closed"),
        ("{\n a: sk-secret-value\n}", 2, ("a",), "a value is missing or cannot be read"),
        ("{\n a: ,\n}", 2, ("a",), "a value is missing"),
        ("{\n a: -b }", 2, ("a",), "a value is missing"),
        ("{\n a\n}", 2, ("a",), "expected :"),
        ("{\n , }", 2, (), "expected a key"),
        ("{}\n}", 2, (), "follows after the end"),
        ("{\n /* x\n}", 2, (), "comment is never closed"),
        ("[" * 500, 1, (0,) * 4, "levels deep"),
        ("{'", 1, (), "a text is never closed"),
    ],
)
def test_faults_have_a_line_and_a_path(text: str, line: int, path: tuple[str | int, ...], message: str) -> None:
    fault = scan_json(text).fault
    assert fault is not None
    assert (fault.line, fault.path) == (line, path)
    assert message in fault.message
    assert "sk-secret" not in fault.message + fault.hint


def test_keys_that_stand_twice() -> None:
    found = scan_json("{a: 1,\nb: {a: 2},\na: 3}")
    assert found.doubles == ((("a",), 3),)
    assert found.nodes[("a",)].line == 3


@pytest.mark.parametrize(
    ("text", "offset", "line"), [("a\nb", 0, 1), ("a\nb", 2, 2), ("a\r\nb\rc", 3, 2), ("a\r\nb\rc", 5, 3)]
)
def test_line_at(text: str, offset: int, line: int) -> None:
    assert find_line(text, offset) == line


@given(st.one_of(st.text(), st.text(alphabet="{}[]:,\"'\\/*\n\r ab01.-+$u\u2028\ufeff")))
@settings(max_examples=300)
def test_never_raises_and_agrees_with_the_parser(text: str) -> None:
    found = scan_json(text)
    try:
        value = pyjson5.decode(text, 60)
    except (pyjson5.Json5Exception, ValueError):
        return
    # What the parser takes, the scanner must take too, with the same keys, or edits and lines would be wrong.
    assert found.fault is None
    assert set(found.nodes) >= set(_paths(value, ()))


def _paths(value: Any, path: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
    items: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [path, *(deep for key, below in items for deep in _paths(below, (*path, key)))]


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**9), 10**9),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda below: st.one_of(st.lists(below, max_size=4), st.dictionaries(st.text(), below, max_size=4)),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON, max_size=5), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
@settings(max_examples=150)
def test_lines_of_generated_documents(value: dict[str, Any], newline: str, ascii_only: bool) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=ascii_only)
    found = scan_json(text.replace("\n", newline))
    assert found.fault is None
    assert {path: node.line for path, node in found.nodes.items()} == _lines(value)


def _lines(value: Any) -> dict[tuple[str | int, ...], int]:
    """Lines by counting what json.dumps(indent=1) writes: one line a member, one for each closing bracket."""
    out: dict[tuple[str | int, ...], int] = {}

    def walk(below: Any, path: tuple[str | int, ...], line: int) -> int:
        out[path] = line
        items = (
            list(below.items())
            if isinstance(below, dict)
            else list(enumerate(below))
            if isinstance(below, list)
            else []
        )
        for key, item in items:
            line = walk(item, (*path, key), line + 1)
        return line + 1 if items else line

    walk(value, (), 1)
    return out
