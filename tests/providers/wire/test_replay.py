"""Tool call ids on their way back: stable, distinct, acceptable."""

from __future__ import annotations

import re

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import AssistantMessage, ImageBlock, TextBlock
from palinurus.providers.wire.replay import NO_IMAGE, Idents, exact_ids, own, safe_ids, schema, texts, tool_name
from palinurus.providers.wire.responses.request import call_id
from providers.kit import info


@given(st.text(max_size=80), st.text(max_size=80))
def test_ids(one: str, two: str) -> None:
    for make, longest in ((safe_ids(40), 40), (safe_ids(64), 64), (exact_ids(9), 9)):
        first, second = make(one), make(two)
        assert first == make(one) and 0 < len(first) <= longest
        assert first.replace("_", "").replace("-", "").isalnum() or not one.strip("_-")
        assert (first == second) == (one == two) or make(first) == first
    assert safe_ids(40)("call_1-x") == "call_1-x" and exact_ids(9)("abcdefgh1") == "abcdefgh1"


def test_texts() -> None:
    blocks = (TextBlock("a"), ImageBlock("x", "image/png"), TextBlock("b"))
    assert texts(blocks, vision=True) == "a\nb"
    assert texts(blocks, vision=False) == f"a\n{NO_IMAGE}\nb"
    assert texts((TextBlock("a"),), False) == "a" and texts((), False) == ""


@given(st.lists(st.sampled_from(["k|fc_1", "k|fc_2", "k", "ü", "ü ", "x" * 99, "x" * 98]), max_size=9))
def test_ids_of_one_request_stay_apart_and_paired(raws: list[str]) -> None:
    for make in (safe_ids(40), exact_ids(9), call_id):
        ident = Idents(make)
        given = {raw: ident(raw) for raw in raws}
        assert len(set(given.values())) == len(given)
        assert all(ident(raw) == found for raw, found in given.items())
        again = Idents(make)
        assert {raw: again(raw) for raw in given} == given


@given(st.text(max_size=90))
def test_names_every_api_takes(raw: str) -> None:
    name = tool_name(raw)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name)
    assert tool_name(name) == name


def test_names_stay_readable() -> None:
    assert [tool_name(n) for n in ("read", "functions.read", "1st", "")] == ["read", "functions_read", "_1st", "_"]


def test_thoughts_of_an_answer_that_failed_go_nowhere() -> None:
    said = AssistantMessage((), "openai-completions", "p", "m")
    assert own(said, info())
    assert not own(msgspec.structs.replace(said, stopReason="aborted"), info())
    assert not own(said, info(ref=ModelRef("p", "other")))


def test_a_schema_has_a_type() -> None:
    assert schema({}) == {"type": "object"} and schema({"properties": {}, "type": None})["type"] == "object"
    given = {"type": "object", "properties": {}}
    assert schema(given) is given
