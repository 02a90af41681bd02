"""Waits grow, stay within their bounds, and begin anew."""

from __future__ import annotations

from palinurus.backoff import Backoff


def test_waits_double_with_jitter_up_to_the_longest_and_begin_anew() -> None:
    backoff = Backoff(1.0, 8.0)
    for top in (1.0, 2.0, 4.0, 8.0, 8.0):
        assert top / 2 <= backoff.next_delay() <= top
    backoff.reset()
    assert backoff.next_delay() <= 1.0
