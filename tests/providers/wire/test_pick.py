"""Reading JSON that promises nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.providers.wire import pick

JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
)


@given(JSON)
def test_every_shape_gives_the_promised_type(value: Any) -> None:
    for path in ((), ("a",), ("a", "b")):
        assert isinstance(pick.get_object(value, *path), dict)
        assert isinstance(pick.get_text(value, *path), str)
        assert pick.get_count(value, *path) >= 0
        assert all(isinstance(v, dict) for v in pick.get_objects(value, *path))


@pytest.mark.parametrize(
    ("value", "number"), [(7, 7), (7.0, 7), (-1, 0), (True, 0), ("7", 0), (2**60, 0), (float("nan"), 0), (None, 0)]
)
def test_counters(value: Any, number: int) -> None:
    assert pick.get_count({"n": value}, "n") == number


@pytest.mark.parametrize(
    ("raw", "value"),
    [(b'{"a":1}', {"a": 1}), (b"[1]", None), (b"", None), (b"{", None), (b'{"a":NaN}', {"a": None}), (b"\xff", None)],
)
def test_read(raw: bytes, value: Any) -> None:
    assert pick.read_object(raw) == value


@given(st.binary(max_size=100))
def test_read_never_raises(raw: bytes) -> None:
    pick.read_object(raw)
