"""Tool call ids on their way back: stable, distinct, acceptable."""

from __future__ import annotations

import re

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import AssistantMessage, ImageBlock, TextBlock
from palinurus.providers.wire.history import (
    NO_IMAGE,
    CallIds,
    is_own_answer,
    join_texts,
    make_exact_ids,
    make_object_schema,
    make_safe_ids,
    make_tool_name,
)
from palinurus.providers.wire.responses import make_call_id
from providers.kit import info


@given(st.text(max_size=80), st.text(max_size=80))
def test_ids(one: str, two: str) -> None:
    for make, longest in ((make_safe_ids(40), 40), (make_safe_ids(64), 64), (make_exact_ids(9), 9)):
        first, second = make(one), make(two)
        assert first == make(one) and 0 < len(first) <= longest
        assert first.replace("_", "").replace("-", "").isalnum() or not one.strip("_-")
        assert (first == second) == (one == two) or make(first) == first
    assert make_safe_ids(40)("call_1-x") == "call_1-x" and make_exact_ids(9)("abcdefgh1") == "abcdefgh1"


def test_texts() -> None:
    blocks = (TextBlock("a"), ImageBlock("x", "image/png"), TextBlock("b"))
    assert join_texts(blocks, vision=True) == "a\nb"
    assert join_texts(blocks, vision=False) == f"a\n{NO_IMAGE}\nb"
    assert join_texts((TextBlock("a"),), False) == "a" and join_texts((), False) == ""


@given(st.lists(st.sampled_from(["k|fc_1", "k|fc_2", "k", "ü", "ü ", "x" * 99, "x" * 98]), max_size=9))
def test_ids_of_one_request_stay_apart_and_paired(raws: list[str]) -> None:
    for make in (make_safe_ids(40), make_exact_ids(9), make_call_id):
        ident = CallIds(make)
        given = {raw: ident(raw) for raw in raws}
        assert len(set(given.values())) == len(given)
        assert all(ident(raw) == found for raw, found in given.items())
        again = CallIds(make)
        assert {raw: again(raw) for raw in given} == given


@given(st.text(max_size=90))
def test_names_every_api_takes(raw: str) -> None:
    name = make_tool_name(raw)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name)
    assert make_tool_name(name) == name


def test_names_stay_readable() -> None:
    assert [make_tool_name(n) for n in ("read", "functions.read", "1st", "")] == ["read", "functions_read", "_1st", "_"]


def test_thoughts_of_an_answer_that_failed_go_nowhere() -> None:
    said = AssistantMessage((), "openai-completions", "p", "m")
    assert is_own_answer(said, info())
    assert not is_own_answer(msgspec.structs.replace(said, stopReason="aborted"), info())
    assert not is_own_answer(said, info(ref=ModelRef("p", "other")))


def test_a_schema_has_a_type() -> None:
    assert (
        make_object_schema({}) == {"type": "object"}
        and make_object_schema({"properties": {}, "type": None})["type"] == "object"
    )
    given = {"type": "object", "properties": {}}
    assert make_object_schema(given) is given
