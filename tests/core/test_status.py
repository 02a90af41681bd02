"""The card's words."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from palinurus.core.status import SessionCard, choose_clock_hours, format_time_line, render_session_card

AT = 1_769_864_700_000  # 2026-01-31 13:05 UTC


@pytest.mark.seed(257)
@pytest.mark.parametrize(
    ("zone", "form", "expected"),
    [
        ("Europe/Berlin", 24, "Time: Saturday, 2026-01-31 14:05 (Europe/Berlin, UTC+01:00)"),
        ("America/New_York", 12, "Time: Saturday, 2026-01-31 8:05 AM (America/New_York, UTC-05:00)"),
        ("Asia/Kolkata", 12, "Time: Saturday, 2026-01-31 6:35 PM (Asia/Kolkata, UTC+05:30)"),
    ],
)
def test_the_time_where_the_user_is(zone: str, form: int, expected: str) -> None:
    assert format_time_line(AT, ZoneInfo(zone), zone, form) == expected


def test_without_a_zone_it_is_utc() -> None:
    assert format_time_line(AT, None, "", 24) == "Time: Saturday, 2026-01-31 13:05 (UTC+00:00)"
    assert "12:05 AM" in format_time_line(AT - 13 * 3_600_000, None, "", 12)


@pytest.mark.parametrize(
    ("form", "locale", "expected"),
    [
        ("12", "de_DE.UTF-8", 12),
        ("24", "en_US.UTF-8", 24),
        ("auto", "en_US.UTF-8", 12),
        ("auto", "de_DE", 24),
        ("auto", "C", 24),
    ],
)
def test_the_clock_people_are_used_to(form: str, locale: str, expected: int) -> None:
    assert choose_clock_hours(form, locale) == expected


def test_the_card() -> None:
    card = SessionCard(
        "agent:main:main", "p/m", AT, chosen=True, thinking="high", used=5000, window=20_000, input=12_345, output=7,
        cache_read=3, calls=2, cost=0.25, state="running",
    )  # fmt: skip
    assert render_session_card(card).split("\n") == [
        "Time: Saturday, 2026-01-31 13:05 (UTC+00:00)",
        "Model: p/m (chosen for this session)",
        "Thinking: high",
        "Context: 5,000 of 20,000 tokens (25%)",
        "Usage: 12,345 in, 7 out, 3 read from and 0 written to the cache in 2 calls",
        "Cost: $0.2500",
        "Session: agent:main:main · running",
    ]


def test_unpriced_is_not_free() -> None:
    assert "Cost: unknown (3 unpriced calls)" in render_session_card(SessionCard("s", "m", AT, unpriced=3))
    assert "Cost: $2.00 and 1 unpriced calls" in render_session_card(SessionCard("s", "m", AT, cost=2.0, unpriced=1))
    assert "Cost: nothing yet" in render_session_card(SessionCard("s", "m", AT))
