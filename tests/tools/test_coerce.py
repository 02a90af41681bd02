"""The conversion table's own edges; the whole table is exercised through test_schema."""

from __future__ import annotations

import pytest

from palinurus.core.text import repair_surrogates
from palinurus.tools.coerce import ArgumentMismatch, convert_value, decode_json_text, to_storable


def test_half_surrogates_become_storable() -> None:
    assert repair_surrogates("ok \u00e9") == "ok \u00e9"
    assert repair_surrogates("\ud83d\ude00") == "\U0001f600"
    repair_surrogates("x\udfff").encode()


def test_decoded_gives_back_what_is_no_json_of_that_kind() -> None:
    assert decode_json_text("[1]", list) == [1]
    assert decode_json_text("[1]", dict) == "[1]"
    assert decode_json_text("{" * 100_000, dict) == "{" * 100_000
    assert decode_json_text('{"a": NaN}', dict) == '{"a": NaN}'


def test_plain_bounds_depth_and_refuses_infinity() -> None:
    with pytest.raises(ArgumentMismatch, match="finite"):
        to_storable([float("inf")], 0)
    with pytest.raises(ArgumentMismatch, match="deep"):
        to_storable([[]], 40)


def test_unknown_kind_leaves_the_value() -> None:
    assert convert_value("whatever", {"a": 1}, "x", 0) == {"a": 1}
