"""The card of a session: model, usage, cost, and the time where the user is. Words only; others find the facts."""

from __future__ import annotations

from datetime import UTC, tzinfo

import msgspec

from palinurus.core.text import to_datetime

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# Places whose people read a clock with am and pm. By the locale's country.
_TWELVE = frozenset({"US", "CA", "AU", "NZ", "PH", "IN", "PK", "BD", "EG", "SA", "MX", "CO"})


class SessionCard(msgspec.Struct, frozen=True):
    """One session as it stands. `cost` in US dollars; None when nothing of it has a price. `zone` None is UTC."""

    session: str
    model: str
    now: int  # milliseconds since the epoch
    zone: tzinfo | None = None
    zone_name: str = ""
    hours: int = 24
    chosen: bool = False  # the model was chosen for this session
    thinking: str = ""
    used: int | None = None  # tokens of context
    window: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    calls: int = 0
    cost: float | None = None
    unpriced: int = 0  # calls
    state: str = ""  # idle, running


def choose_clock_hours(form: str, locale: str) -> int:
    """12 or 24: what agents.defaults.timeFormat says; for `auto` what the locale's country is used to."""
    if form in ("12", "24"):
        return int(form)
    country = locale.partition(".")[0].partition("@")[0].partition("_")[2].upper()
    return 12 if country in _TWELVE else 24


def format_time_line(now: int, zone: tzinfo | None, name: str, form: int) -> str:
    """`Time: Saturday, 2026-01-31 14:05 (Europe/Berlin, UTC+01:00)`"""
    at = to_datetime(now, zone or UTC)
    clock = f"{at.hour % 12 or 12}:{at:%M} {'PM' if at.hour >= 12 else 'AM'}" if form == 12 else f"{at:%H:%M}"
    offset = f"{at:%z}" or "+0000"
    shift = f"UTC{offset[:3]}:{offset[3:5]}"
    return f"Time: {_DAYS[at.weekday()]}, {at:%Y-%m-%d} {clock} ({f'{name}, ' if name else ''}{shift})"


def render_session_card(card: SessionCard) -> str:
    """The card as lines."""
    lines = [
        format_time_line(card.now, card.zone, card.zone_name, card.hours),
        f"Model: {card.model}{' (chosen for this session)' if card.chosen else ''}",
        f"Thinking: {card.thinking}" if card.thinking else "",
        _context(card),
        _tokens(card),
        f"Cost: {_cost(card)}",
        f"Session: {card.session}{f' · {card.state}' if card.state else ''}",
    ]
    return "\n".join(line for line in lines if line)


def _context(card: SessionCard) -> str:
    if not card.window:
        return ""
    if card.used is None:
        return f"Context: of {card.window:,} tokens, not counted yet"
    return f"Context: {card.used:,} of {card.window:,} tokens ({card.used * 100 // card.window}%)"


def _tokens(card: SessionCard) -> str:
    cached = f", {card.cache_read:,} read from and {card.cache_write:,} written to the cache"
    calls = f" in {card.calls} call{'' if card.calls == 1 else 's'}" if card.calls else ""
    cached = cached if card.cache_read or card.cache_write else ""
    return f"Usage: {card.input:,} in, {card.output:,} out{cached}{calls}"


def _cost(card: SessionCard) -> str:
    """Unpriced is not free."""
    if card.cost is None:
        return f"unknown ({card.unpriced} unpriced calls)" if card.unpriced else "nothing yet"
    some = f"${card.cost:.2f}" if card.cost >= 1 or card.cost == 0 else f"${card.cost:.4f}"
    return f"{some} and {card.unpriced} unpriced calls" if card.unpriced else some
