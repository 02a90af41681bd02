"""Too much of one sender."""

from __future__ import annotations

from palinurus.core.policy.admission import FloodGuard


def test_told_once_then_silent_then_anew() -> None:
    flood = FloodGuard()
    assert [flood.step("a", at, 3) for at in (0, 1, 2, 3, 4, 5)] == ["fine"] * 3 + ["first", "more", "more"]
    assert flood.step("b", 5, 3) == "fine"
    assert flood.step("a", 62.9, 3) == "more" and flood.step("a", 63, 3) == "fine"


def test_the_window_slides() -> None:
    flood = FloodGuard()
    assert [flood.step("a", at, 2) for at in (0, 30, 61, 91)] == ["fine"] * 4


def test_only_so_many_are_remembered() -> None:
    flood = FloodGuard(known=2)
    for who in ("a", "b", "c"):
        flood.step(who, 0, 1)
    assert flood.step("a", 0, 1) == "fine"  # forgotten: c and b came later
    assert flood.step("c", 0, 1) == "first"


def test_forgetting() -> None:
    flood = FloodGuard()
    for who in ("x/1", "x/2", "y/1"):
        flood.step(who, 0, 1)
    flood.forget("x/")
    assert [flood.step(who, 0, 1) for who in ("x/1", "x/2", "y/1")] == ["fine", "fine", "first"]


def test_looking_counts_nothing() -> None:
    flood = FloodGuard()
    assert not flood.full("a", 0, 1) and flood.full("a", 0, 0)
    assert flood.step("a", 0, 2) == "fine"
    assert [flood.full("a", 1, 2) for _ in range(3)] == [False] * 3
    assert flood.step("a", 1, 2) == "fine"
    assert flood.full("a", 2, 2) and not flood.full("a", 60, 2)  # the window slides
    assert flood.step("a", 2, 2) == "first" and flood.full("a", 61, 2) and not flood.full("a", 62, 2)
