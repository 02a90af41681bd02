"""What stands behind a button. Sending itself: test_conformance and test_flow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palinurus.channels.telegram.outbound import arrange_buttons, encode_button
from palinurus.core.types.outbound import Button


@given(st.text(max_size=100))
def test_what_stands_behind_a_button_fits(text: str) -> None:
    data = encode_button(text)
    assert 1 <= len(data.encode()) <= 64
    assert data == f"t{text}" if len(text.encode()) < 64 else data.startswith("k") and data == encode_button(text)


def test_short_buttons_stand_side_by_side() -> None:
    labels = ["Allow once", "Allow always", "Deny", "a" * 40, "b" * 40, "", "c" * 100]
    shown = [[one["text"] for one in row] for row in arrange_buttons([Button(label, label) for label in labels])]
    assert shown == [labels[:3], ["a" * 40], ["b" * 40], ["…"], ["c" * 64]]
