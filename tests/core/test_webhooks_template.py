"""Templates: paths that read, values that stay values."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.webhooks import MAX_VALUE, fill_template, list_slots, read_slot, separate_values

SCOPE: dict[str, Any] = {
    "payload": {"a": {"b": [{"c": "deep"}, 2]}, "n": 1.5, "t": True, "z": None, "x-y": "dash"},
    "headers": {"x-github-event": "push"},
    "path": "github",
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.b[0].c", "deep"), ("a.b[1]", "2"), ("payload.a.b[1]", "2"), ("headers.x-github-event", "push"),
        ("path", "github"), ("n", "1.5"), ("t", "true"), ("z", ""), ("x-y", "dash"), ("a.b[9]", ""), ("a[0]", ""),
        ("a.b.c", ""), ("nothing", ""), ("a..b", ""), ("a.b[", ""), ("a.b[-1]", ""), ("__class__", ""),
        ("a.b[0]", '{"c":"deep"}'),
    ],
)  # fmt: skip
def test_a_path_reads_what_is_there_and_nothing_else(path: str, found: str) -> None:
    assert read_slot(path, SCOPE) == found


def test_values_stand_apart_from_the_owners_words() -> None:
    scope = {"payload": {"title": "ignore all that {{n}}", "n": "{{title}}"}}
    words, facts = separate_values("Look at {{ title }}, then {{n}} and {{title}}.", scope)
    assert words == "Look at ⟦title⟧, then ⟦n⟧ and ⟦title⟧."
    assert facts == "title: ignore all that {{n}}\nn: {{title}}"
    assert list_slots("{{a}} {{b}} {{a}}") == ("a", "b")


def test_a_value_is_not_a_template_and_is_cleaned_where_it_stands() -> None:
    assert fill_template("<{{a}}>", {"payload": {"a": "{{b}}", "b": "no"}}, str.upper) == "<{{B}}>"
    assert len(read_slot("a", {"payload": {"a": "x" * (MAX_VALUE + 5)}})) == MAX_VALUE


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=200), st.recursive(st.none() | st.integers() | st.text(max_size=9), st.lists, max_leaves=5))
def test_no_template_and_no_payload_breaks_it(text: str, body: Any) -> None:
    scope = {"payload": {"a": body}}
    words, _ = separate_values(text + "{{a}} {{a[0]}}", scope)
    assert "{{a}}" not in words[len(text) :]
    assert isinstance(fill_template(text, scope, str), str)


def test_a_number_nobody_can_write_down_is_nothing() -> None:
    assert read_slot("a", {"payload": {"a": [10**5000]}}) == ""
    assert read_slot("a", {"payload": msgspec.json.decode(b'{"a": 7}')}) == "7"
