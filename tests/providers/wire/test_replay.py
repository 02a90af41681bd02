"""Tool call ids on their way back: stable, distinct, acceptable."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.types.messages import Image, Text
from palinurus.providers.wire.replay import NO_IMAGE, exact_ids, safe_ids, texts


@given(st.text(max_size=80), st.text(max_size=80))
def test_ids(one: str, two: str) -> None:
    for make, longest in ((safe_ids(40), 40), (safe_ids(64), 64), (exact_ids(9), 9)):
        first, second = make(one), make(two)
        assert first == make(one) and 0 < len(first) <= longest
        assert first.replace("_", "").replace("-", "").isalnum() or not one.strip("_-")
        assert (first == second) == (one == two) or make(first) == first
    assert safe_ids(40)("call_1-x") == "call_1-x" and exact_ids(9)("abcdefgh1") == "abcdefgh1"


def test_texts() -> None:
    blocks = (Text("a"), Image("x", "image/png"), Text("b"))
    assert texts(blocks, vision=True) == "a\nb"
    assert texts(blocks, vision=False) == f"a\n{NO_IMAGE}\nb"
    assert texts((Text("a"),), False) == "a" and texts((), False) == ""
