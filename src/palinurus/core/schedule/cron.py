"""Cron lines: five fields, or six with seconds first; names of months and days, `@daily` and its like, `L` for the
last day of a month. Local wall time only: which instant a wall time is, `fire` knows. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import date, datetime, timedelta
from itertools import product

import msgspec

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11,
    "dec": 12,
}  # fmt: skip
DAYS = {name: at for at, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
LAST = 99  # L in the field for days
REACH = 366 * 40  # days looked ahead: 29 February on a given weekday comes within 40 years


class CronLine(msgspec.Struct, frozen=True):
    """The values each field allows, sorted."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool  # the field for days is *
    any_weekday: bool

    @property
    def hourly(self) -> bool:
        """Does it run in every hour? Then it follows the elapsed time, not the hands of the clock."""
        return len(self.hours) == 24

    def on(self, day: date) -> bool:
        """Whether it runs that day. As in every cron: with both fields set, one of them is enough."""
        if day.month not in self.months:
            return False
        last = LAST in self.days and (day + timedelta(days=1)).day == 1
        by_day = last or day.day in self.days
        by_weekday = day.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return (self.any_day or by_day) and (self.any_weekday or by_weekday)
        return by_day or by_weekday

    def after(self, wall: datetime) -> datetime | None:
        """The first wall time that is not before `wall` (naive); None if there is none within 40 years."""
        day, floor = wall.date(), (wall.hour, wall.minute, wall.second)
        if wall.microsecond:
            step = wall.replace(microsecond=0) + timedelta(seconds=1)
            day, floor = step.date(), (step.hour, step.minute, step.second)
        for _ in range(REACH):
            if self.on(day) and (found := self._time(floor)) is not None:
                return datetime(day.year, day.month, day.day, *found)
            if day.month not in self.months:  # on to the next month at once
                day = (day.replace(day=28) + timedelta(days=4)).replace(day=1)
            else:
                day += timedelta(days=1)
            if day.year > 9990:
                return None
            floor = (0, 0, 0)
        return None

    def _time(self, floor: tuple[int, int, int]) -> tuple[int, int, int] | None:
        hours = self.hours[bisect_left(self.hours, floor[0]) :]
        return next((time for time in product(hours, self.minutes, self.seconds) if time >= floor), None)


def parse_cron(text: str) -> CronLine:
    """Raises ValueError with what is wrong."""
    words = MACROS.get(text.strip().lower(), text).split()
    if len(words) == 5:
        words = ["0", *words]
    if len(words) != 6:
        raise ValueError("a cron line has five fields: minute, hour, day, month, weekday (six with seconds first)")
    second, minute, hour, day, month, weekday = words
    weekdays = frozenset(value % 7 for value in _field(weekday, 0, 7, DAYS, what="weekday"))
    return CronLine(
        _field(second, 0, 59, {}, what="second"),
        _field(minute, 0, 59, {}, what="minute"),
        _field(hour, 0, 23, {}, what="hour"),
        frozenset(_field(day, 1, 31, {"l": LAST}, what="day")),
        months=frozenset(_field(month, 1, 12, MONTHS, what="month")),
        weekdays=weekdays,
        any_day=day in ("*", "?"),
        any_weekday=weekday in ("*", "?"),
    )


def _field(text: str, low: int, high: int, names: dict[str, int], what: str) -> tuple[int, ...]:
    found: set[int] = set()
    for piece in text.lower().split(","):
        body, slash, step = piece.partition("/")
        every = _number(step, {}, what) if slash else 1
        if every < 1:
            raise ValueError(f"{what}: a step is 1 or more, not {step!r}")
        if body in ("*", "?"):
            first, last = low, high
        elif "-" in body:
            first, last = (_number(end, names, what) for end in body.split("-", 1))
            if first > last and what == "weekday":  # fri-mon
                last += 7
        else:
            first = last = _number(body, names, what)
            if slash:
                last = high
        if first == LAST and last == LAST and not slash:
            found.add(LAST)
            continue
        if not (low <= first <= high and first <= last and (last <= high or what == "weekday")):
            raise ValueError(f"{what}: {piece!r} is not between {low} and {high}")
        found.update(value % 7 if what == "weekday" else value for value in range(first, last + 1, every))
    return tuple(sorted(found))


def _number(text: str, names: dict[str, int], what: str) -> int:
    if text in names:
        return names[text]
    if not (text.isascii() and text.isdecimal()) or len(text) > 4:
        raise ValueError(f"{what}: {text[:20]!r} is not a number")
    return int(text)
