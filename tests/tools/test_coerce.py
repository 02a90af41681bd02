"""The conversion table's own edges; the whole table is exercised through test_schema."""

from __future__ import annotations

import pytest

from palinurus.tools.coerce import Mismatch, convert, decoded, plain, storable


def test_half_surrogates_become_storable() -> None:
    assert storable("ok \u00e9") == "ok \u00e9"
    assert storable("\ud83d\ude00") == "\U0001f600"
    storable("x\udfff").encode()


def test_decoded_gives_back_what_is_no_json_of_that_kind() -> None:
    assert decoded("[1]", list) == [1]
    assert decoded("[1]", dict) == "[1]"
    assert decoded("{" * 100_000, dict) == "{" * 100_000
    assert decoded('{"a": NaN}', dict) == '{"a": NaN}'


def test_plain_bounds_depth_and_refuses_infinity() -> None:
    with pytest.raises(Mismatch, match="finite"):
        plain([float("inf")], 0)
    with pytest.raises(Mismatch, match="deep"):
        plain([[]], 40)


def test_unknown_kind_leaves_the_value() -> None:
    assert convert("whatever", {"a": 1}, "x", 0) == {"a": 1}
