import json
from typing import Any

import pyjson5
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.config.edit import put_text, put_value, remove_text, remove_value
from palinurus.config.lines import scan_json

SAMPLE = """\
// top
{
  // the gateway
  gateway: {
    port: 18789, // the port
    bind: "loopback", /* who */
  },
  "tools": { "deny": ["exec"] } // last
}
"""


def test_a_value_is_replaced_in_place() -> None:
    assert put_text(SAMPLE, ("gateway", "port"), 1) == SAMPLE.replace("18789", "1")
    assert put_text(SAMPLE, ("tools", "deny", 0), "write") == SAMPLE.replace('"exec"', '"write"')


def test_a_new_key_goes_last_in_the_style_of_its_neighbours() -> None:
    assert put_text(SAMPLE, ("gateway", "mode"), "local") == SAMPLE.replace(
        "/* who */\n", '/* who */\n    mode: "local",\n'
    )
    assert put_text(SAMPLE, ("tools", "allow"), []) == SAMPLE.replace('["exec"]', '["exec"], "allow": []')
    assert put_text(SAMPLE, ("tools", "deny", 1), "x") == SAMPLE.replace('"exec"', '"exec", "x"')


def test_a_new_section_after_a_last_one_without_comma() -> None:
    found = put_text(SAMPLE, ("session", "reset", "mode"), "idle")
    assert found == SAMPLE.replace(
        "] } // last\n", '] }, // last\n  "session": {\n    "reset": {\n      "mode": "idle"\n    }\n  }\n'
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", '{\n  "a": 1\n}'),
        ("{ // c\n}", '{\n  "a": 1 // c\n}'),
        ("{\n}", '{\n  "a": 1\n}'),
        ("{b: 2}", "{b: 2, a: 1}"),
        ("{b: 2,}", "{b: 2, a: 1}"),
        ("{b: 2 /* c */}", "{b: 2, a: 1 /* c */}"),
    ],
)
def test_insertion_into_small_objects(text: str, expected: str) -> None:
    assert put_text(text, ("a",), 1) == expected


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("{\n  // keep\n  a: 1,\n  b: 2,\n}", ("a",), "{\n  // keep\n  b: 2,\n}"),
        ('{\n  "a": 1,\n  "b": 2\n}', ("b",), '{\n  "a": 1\n}'),
        ("{a: 1, b: 2}", ("a",), "{ b: 2}"),
        ("{a: 1, b: 2}", ("b",), "{a: 1 }"),
        ("{a: [1, 2, 3]}", ("a", 1), "{a: [1,  3]}"),
        ("{\n  a: 1, // why\n  b: 2\n}", ("a",), "{\n   // why\n  b: 2\n}"),
        ("{a: 1}", ("a",), "{}"),
    ],
)
def test_removal(text: str, path: tuple[str | int, ...], expected: str) -> None:
    assert remove_text(text, path) == expected


@pytest.mark.parametrize("text", ["", "{", "{a: }"])
def test_what_cannot_be_edited_is_None(text: str) -> None:
    assert put_text(text, ("a",), 1) is None
    assert remove_text(text, ("a",)) is None


def test_values() -> None:
    raw = {"a": {"b": [1]}}
    assert put_value(raw, ("a", "c", "d"), 2) == {"a": {"b": [1], "c": {"d": 2}}}
    assert put_value(raw, ("a", "b", 1), 2) == {"a": {"b": [1, 2]}}
    assert put_value({}, ("l", 0, "x"), 1) == {"l": [{"x": 1}]}
    assert remove_value(raw, ("a", "b")) == {"a": {}}
    assert raw == {"a": {"b": [1]}}
    for path in (("a", "b", 2), ("a", "b", "x"), ("a", 0), ("a", "b", 0, "x")):
        with pytest.raises(ValueError, match=r"list|below"):
            put_value(raw, path, 1)


KEYS = st.sampled_from(["a", "b", "c-d", "é", "$x", "1"])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=4)),
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(KEYS, below, max_size=3)),
    max_leaves=8,
)
GAPS = st.sampled_from(["", " ", "\n", "\n  ", "// c, }\n", "/* , } */", "\r\n"])


@st.composite
def _document(draw: st.DrawFn, value: Any) -> str:
    """`value` as JSON5 with blanks and comments anywhere, either quotes, and commas at the end or not."""
    gap = draw(GAPS)
    if isinstance(value, dict):
        quote = draw(st.sampled_from(['"', "'"]))
        parts = [
            f"{draw(GAPS)}{quote}{k}{quote}{draw(GAPS)}:{draw(GAPS)}{draw(_document(v))}" for k, v in value.items()
        ]
        return "{" + ",".join(parts) + ("," if parts and draw(st.booleans()) else "") + gap + "}"
    if isinstance(value, list):
        parts = [draw(GAPS) + draw(_document(v)) for v in value]
        return "[" + ",".join(parts) + ("," if parts and draw(st.booleans()) else "") + gap + "]"
    return json.dumps(value) + gap


@given(st.data(), st.dictionaries(KEYS, VALUES, max_size=4), st.lists(KEYS, min_size=1, max_size=3), VALUES)
@settings(max_examples=200, deadline=None)
def test_edits_give_what_was_asked_for(data: st.DataObject, raw: dict[str, Any], path: list[str], value: Any) -> None:
    text = data.draw(_document(raw))
    assert pyjson5.decode(text) == raw
    key = tuple(path)
    try:
        wanted = put_value(raw, key, value)
    except ValueError:
        return
    edited = put_text(text, key, value)
    if edited is not None:  # below a null there is no object to write into; the caller then writes the file anew
        assert pyjson5.decode(edited) == wanted
        assert edited.count("// c, }") >= text.count("// c, }") - _inside(text, key)
    removed = remove_text(edited if edited is not None else json.dumps(wanted), key)
    assert removed is not None
    assert pyjson5.decode(removed) == remove_value(wanted, key)


def _inside(text: str, path: tuple[str, ...]) -> int:
    """Comments inside the value that is replaced go with it."""
    node = scan_json(text).nodes.get(path)
    return text[node.start : node.end].count("// c, }") if node else 0
