"""A sliding window per key."""

from __future__ import annotations

from palinurus.core.window import SlidingWindow


def test_so_many_in_so_long_and_each_key_for_itself() -> None:
    window = SlidingWindow(2, 10)
    assert [window.count("a", now) for now in (0, 1, 2)] == [0, 0, 8]
    assert window.count("b", 2) == 0
    assert window.wait("a", 9.5) == 0.5 and window.count("a", 10) == 0 and window.wait("a", 10) == 1
    window.forget("a")
    assert window.wait("a", 10) == 0


def test_keys_are_bounded() -> None:
    window = SlidingWindow(1, 10, keys=2)
    for key in "abc":
        window.count(key, 0)
    assert window.wait("a", 0) == 0 and window.wait("c", 0) > 0


def test_a_key_may_have_a_limit_of_its_own() -> None:
    window = SlidingWindow(1, 60)
    assert [window.count("a", at, 3) for at in range(3)] == [0.0, 0.0, 0.0]
    assert window.count("a", 10.0, 3) == 50.0
    assert window.count("b", 10.0, 3) == 0.0  # its own count
    assert window.count("a", 60.0, 3) == 0.0  # the first has left the minute
    assert window.count("a", 60.5, 3) == 0.5
