"""One spelling for numbers, times and cut text."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest

from palinurus.core.text import (
    cut_end,
    cut_line,
    cut_middle,
    format_bytes,
    format_count,
    format_dollars,
    format_span,
    format_tokens,
    to_datetime,
)


def test_cuts_are_marked_and_never_longer_than_allowed() -> None:
    assert cut_end("short", 5) == "short" and cut_end("too long", 5) == "too…"
    assert cut_line(" a\n\tb  c ", 9) == "a b c" and cut_line("a\n" * 99, 6) == "a a a…"
    assert cut_middle("0123456789", 10) == "0123456789"
    assert cut_middle("0123456789abcdef", 10, "..", head=0.5) == "0123..cdef"
    for most in range(12):
        assert len(cut_middle("x" * 40, most, "..")) <= max(most, 2) and len(cut_end("x" * 40, most)) <= max(most, 1)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (format_tokens(950), "950"),
        (format_tokens(12_345), "12.3k"),
        (format_tokens(2_000_000), "2M"),
        (format_bytes(17), "17 B"),
        (format_bytes(4_300), "4.2 KB"),
        (format_bytes(325_000_000), "310 MB"),
        (format_span(0.25), "0.2 s"),
        (format_span(12), "12 s"),
        (format_span(245), "4m"),
        (format_span(12_000), "3h 20m"),
        (format_span(190_000), "2d 4h"),
        (format_dollars(0), "$0.00"),
        (format_dollars(0.0042), "$0.0042"),
        (format_dollars(12.4), "$12.40"),
    ],
)
def test_numbers(written: str, shown: str) -> None:
    assert written == shown


def test_moments() -> None:
    assert to_datetime(0).isoformat() == "1970-01-01T00:00:00+00:00"
    assert to_datetime(0, timezone(timedelta(hours=2))).hour == 2


def test_one_and_many() -> None:
    assert [format_count(n, "server") for n in (0, 1, 2)] == ["0 servers", "1 server", "2 servers"]
