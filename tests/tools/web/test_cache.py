"""Kept for a while, and never too much."""

from __future__ import annotations

from palinurus.tools.web.cache import COUNT, SIZE, FetchCache


def test_entries_age_and_the_least_used_go_first() -> None:
    now = [0.0]
    cache = FetchCache[str](10, lambda: now[0])
    cache.put("a", "A", 1)
    assert cache.get("a") == "A" and cache.get("b") is None
    now[0] = 10.0
    assert cache.get("a") is None
    for n in range(COUNT):
        cache.put(n, str(n), 1)
    assert cache.get(0) == "0"
    cache.put("new", "x", 1)
    assert cache.get(0) == "0" and cache.get(1) is None


def test_size_is_bounded_and_nothing_is_kept_for_no_time() -> None:
    cache = FetchCache[str](10, lambda: 0.0)
    for n in range(8):
        cache.put(n, "x", SIZE // 4)
    assert [n for n in range(8) if cache.get(n)] == [4, 5, 6, 7]
    cache.put("huge", "x", SIZE)
    assert cache.get("huge") is None
    off = FetchCache[str](0, lambda: 0.0)
    off.put("a", "A", 1)
    assert off.get("a") is None
