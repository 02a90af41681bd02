import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.durations import UNITS, parse_duration


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("30m", "m", 1800.0),
        ("0m", "m", 0.0),
        ("1h30m", "m", 5400.0),
        ("500ms", "s", 0.5),
        ("7d", "h", 604_800.0),
        ("15", "m", 900.0),
        (15, "d", 1_296_000.0),
        (" 2 H ", "m", 7200.0),
        ("1.5h", "m", 5400.0),
    ],
)
def test_seconds(text: str | int, unit: str, expected: float) -> None:
    assert parse_duration(text, unit) == expected


@pytest.mark.parametrize("text", ["", "x", "-1m", "5 parsecs", "1h!", "m", "٣m", "1e9h", "9" * 40])
def test_what_is_no_duration_is_None(text: str) -> None:
    assert parse_duration(text, "m") is None


@given(st.text(max_size=40), st.sampled_from(sorted(UNITS)))
def test_never_raises(text: str, unit: str) -> None:
    found = parse_duration(text, unit)
    assert found is None or found >= 0
