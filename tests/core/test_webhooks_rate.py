"""How often in a minute."""

from __future__ import annotations

from palinurus.core.webhooks import MinuteRate


def test_a_minute_holds_what_is_allowed_and_no_more() -> None:
    rate = MinuteRate()
    assert [rate.step("a", 3, float(at)) for at in range(3)] == [0.0, 0.0, 0.0]
    assert rate.step("a", 3, 10.0) == 50.0
    assert rate.step("b", 3, 10.0) == 0.0  # its own count
    assert rate.step("a", 3, 60.0) == 0.0  # the first has left the minute
    assert rate.step("a", 3, 60.5) == 0.5
