"""Which time is believed: steady clocks at once, leaps only when they last, the way back always."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.schedule.belief import DAY, BelievedTime, believe_time

NOW = 20_000 * DAY
YEAR = 365 * DAY


def read(*times: int) -> list[int]:
    """What is believed after each reading, from a database that has been in use."""
    seen, out = BelievedTime(NOW), []
    for time in times:
        seen = believe_time(seen, time)
        out.append(seen.at)
    return out


def test_a_steady_clock_is_believed() -> None:
    days = [NOW + n * DAY for n in range(5)]
    assert read(*days) == days


def test_a_leap_is_believed_when_it_lasts() -> None:
    ahead = NOW + YEAR
    assert read(ahead, ahead + 5000, ahead + DAY // 2, ahead + DAY) == [NOW, NOW, NOW, ahead + DAY]


def test_a_leap_that_is_taken_back_leaves_nothing() -> None:
    ahead = NOW + YEAR
    assert read(ahead, NOW + 60_000, ahead + DAY) == [NOW, NOW + 60_000, NOW + 60_000]
    assert read(ahead, ahead + YEAR) == [NOW, NOW]  # the second is no evidence for the first


def test_a_clock_that_goes_back_is_believed() -> None:
    assert read(NOW - YEAR, NOW) == [NOW - YEAR, NOW - YEAR]


def test_a_new_database_believes_nobody_on_its_first_day() -> None:
    first = believe_time(BelievedTime(), NOW)
    assert first == BelievedTime(0, NOW)
    assert believe_time(first, NOW + DAY) == BelievedTime(NOW + DAY)


@given(st.lists(st.integers(0, 3 * NOW)))
def test_it_is_never_ahead_of_the_clock(times: list[int]) -> None:
    seen = BelievedTime()
    for time in times:
        seen = believe_time(seen, time)
        assert seen.at <= time
