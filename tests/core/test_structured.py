"""Which JSON an answer holds, and what is said when it does not fit."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.structured import check_answer, write_correction, write_form_request
from palinurus.core.types.inbound import AnswerForm

FORM = AnswerForm({"type": "object", "required": ["a"]})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.text(max_size=5), JSON, max_size=3), st.sampled_from(["{}", "```json\n{}\n```", "So: {} Done."])
)
def test_the_value_inside_counts_and_is_handed_on_as_it_was(value: dict[str, object], dress: str) -> None:
    text = json.dumps({"a": 1, **value})
    if "```" not in text:
        assert check_answer(dress.replace("{}", text), FORM).text == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no JSON"),
        ("plain words", "no JSON"),
        ('{"b": 1}', "lacks 'a'"),
        ('{"a": NaN}', "no JSON"),
        ('{"a": 1e999}', "no JSON"),
        ("[" * 5000, "no JSON"),
        ("[1] then {", "must be object"),
    ],
)
def test_what_is_wrong_is_said(text: str, problem: str) -> None:
    found = check_answer(text, FORM)
    assert not found.text and problem in found.problem and found.problem in write_correction(found.problem)


def test_any_object_will_do_where_no_schema_is_given() -> None:
    assert check_answer("<think>[1]</think> {}", AnswerForm()).text == "{}"
    assert "must be a JSON object" in check_answer("[1]", AnswerForm()).problem
    assert "object" in write_form_request(AnswerForm()) and '"required":["a"]' in write_form_request(FORM)
