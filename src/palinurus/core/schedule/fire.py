"""Which instants a schedule means. Times are milliseconds since the epoch; zones by name.

Summer time: a wall time that does not exist is the first instant after the gap, once; one that comes twice is the
first of the two. Lines that run in every hour follow the elapsed time instead. Also what becomes of times that were
missed: every due time has one receipt, also where there were a hundred thousand. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import lru_cache
from hashlib import blake2s
from itertools import islice
from typing import Any, Literal, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from palinurus.core.schedule.cron import CronLine, parse_cron

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
LONGEST = 100 * 366 * 86_400_000  # ms: of an interval
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PIECE = 3_600_000  # ms: of a cron line's past that is looked at first; more where little is found
FEW = 50
GRACE_MS = 120_000  # ms: not later than this is on time
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
MAX_CATCH_UP = 100  # slots made up for at once at most

Misfire: TypeAlias = Literal["skip", "once", "all"]


class AtSchedule(msgspec.Struct, frozen=True, tag_field="kind", tag="at"):
    """Once. `at` in milliseconds."""

    at: int


class EverySchedule(msgspec.Struct, frozen=True, tag_field="kind", tag="every", rename="camel", omit_defaults=True):
    """At anchor + n * every."""

    every_ms: int
    anchor_ms: int = 0


class CronSchedule(msgspec.Struct, frozen=True, tag_field="kind", tag="cron", rename="camel", omit_defaults=True):
    """A cron line in a zone ("": the owner's). `stagger_ms`: each job its own fixed delay up to that."""

    expr: str
    tz: str = ""
    stagger_ms: int = 0


Schedule: TypeAlias = AtSchedule | EverySchedule | CronSchedule


def find_time_zone(name: str) -> tzinfo:
    """Raises ValueError for a name nobody knows."""
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name[:60]!r}; write it as Europe/Berlin") from None


@lru_cache(maxsize=512)
def _line(expr: str) -> CronLine:
    return parse_cron(expr)


def check_schedule(schedule: Schedule, tz: str = "") -> None:
    """Raises ValueError with what is wrong with it."""
    if isinstance(schedule, EverySchedule) and not 1000 <= schedule.every_ms <= LONGEST:
        raise ValueError("a job runs every second at most (everyMs is at least 1000)")
    if isinstance(schedule, AtSchedule) and not 0 <= schedule.at < 253_000_000_000_000:
        raise ValueError("at is not a time")
    if isinstance(schedule, CronSchedule):
        if not 0 <= schedule.stagger_ms <= 3_600_000:
            raise ValueError("staggerMs is between 0 and one hour")
        find_time_zone(schedule.tz or tz)
        if _line(schedule.expr).after(datetime(2026, 1, 1)) is None:
            raise ValueError("this cron line never comes true")


def find_next_due(schedule: Schedule, after: int, tz: str = "", job: str = "") -> int | None:
    """The first time it is due that is later than `after`; None: never again. `job` gives it its stagger."""
    match schedule:
        case AtSchedule(at):
            return at if at > after else None
        case EverySchedule(every, anchor):
            return anchor + max(0, (after - anchor) // every + 1) * every
        case CronSchedule(expr, own, stagger):
            delay = choose_stagger(job, stagger)
            found = _cron(_line(expr), after - delay, find_time_zone(own or tz))
            return None if found is None else found + delay


def choose_stagger(job: str, within: int) -> int:
    """The same delay every time, below `within` milliseconds, in whole seconds."""
    seconds = within // 1000
    if seconds < 1:
        return 0
    return int.from_bytes(blake2s(job.encode(), digest_size=4).digest()) % seconds * 1000


def _cron(line: CronLine, after: int, tz: tzinfo) -> int | None:
    start = _EPOCH + timedelta(milliseconds=after)
    return _elapsed(line, start, tz) if line.hourly else _walled(line, start, tz)


def _walled(line: CronLine, start: datetime, tz: tzinfo) -> int | None:
    """For lines with hours of their own: by the hands of the clock."""
    wall = start.astimezone(tz).replace(tzinfo=None, microsecond=0)
    while True:
        found = line.after(wall)
        if found is None:
            return None
        instant = to_instant(found, tz)
        if instant > start:
            return _ms(instant)
        wall = found + SECOND


def _elapsed(line: CronLine, start: datetime, tz: tzinfo) -> int | None:
    """For lines that run every hour: through both passes of an hour that comes twice."""
    base, at = start, (start.replace(microsecond=0) + SECOND)
    while True:
        offset = _offset(at, tz)
        found = line.after((at + offset).replace(tzinfo=None))
        if found is None:
            return None
        instant = found.replace(tzinfo=UTC) - offset
        if _offset(instant, tz) == offset:
            return _ms(instant) if instant > base else None
        at = _change(at, instant, tz)


def to_instant(wall: datetime, tz: tzinfo) -> datetime:
    """The instant of a wall time (naive), in UTC: see the head of this file."""
    first = wall.replace(tzinfo=tz).astimezone(UTC)
    if first.astimezone(tz).replace(tzinfo=None) == wall:
        return first
    return _change(first - timedelta(days=1), first, tz)


def _offset(instant: datetime, tz: tzinfo) -> timedelta:
    return instant.astimezone(tz).utcoffset() or timedelta()


def _change(low: datetime, high: datetime, tz: tzinfo) -> datetime:
    """The first instant after `low` (whole second) whose offset is another than at `low`."""
    before = _offset(low, tz)
    left, right = 0, int((high - low) / SECOND) + 1
    if right > 86_400:  # look at days first: over years a zone comes back to the same offset
        for day in range(86_400, right + 86_400, 86_400):
            if _offset(low + timedelta(seconds=day), tz) != before:
                left, right = day - 86_400, day
                break
    while right - left > 1:
        middle = (left + right) // 2
        if _offset(low + timedelta(seconds=middle), tz) == before:
            left = middle
        else:
            right = middle
    return low + timedelta(seconds=right)


def _ms(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(milliseconds=1)


# --- missed times ----------------------------------------------------------------------------------------------------


class MisfireDecision(msgspec.Struct, frozen=True):
    """`fires`: the due times to run now, oldest first. `skipped`: how many are passed over. `upto`: the last."""

    fires: tuple[int, ...] = ()
    skipped: int = 0
    upto: int = 0


def decide_misfires(dues: list[int], now: int, policy: Misfire, window: int | None) -> MisfireDecision:
    """What becomes of the times that are due and not run (sorted). `window`: how late one may be, in milliseconds;
    None: as late as it likes."""
    if not dues:
        return MisfireDecision()
    late = [due for due in dues if due < now - GRACE_MS and (window is None or due >= now - window)]
    fresh = [due for due in dues if due >= now - GRACE_MS]
    wanted = {"skip": fresh[-1:], "once": (late + fresh)[-1:], "all": (late + fresh)[-MAX_CATCH_UP:]}[policy]
    return MisfireDecision(tuple(wanted), len(dues) - len(wanted), dues[-1])


def list_past_dues(schedule: Schedule, after: int, now: int, tz: str, job: str) -> tuple[list[int], int]:
    """The times due in (after, now], at most the last of them where they are very many, and how many were left out."""
    if isinstance(schedule, EverySchedule):
        first = find_next_due(schedule, after)
        assert first is not None
        count = max(0, (now - first) // schedule.every_ms + 1)
        kept = min(count, MAX_CATCH_UP)
        last = first + (count - 1) * schedule.every_ms
        return [last - n * schedule.every_ms for n in reversed(range(kept))], count - kept
    span = MissedSpan(job, after, now, 0, schedule=schedule, why="", tz=tz)
    found = list(islice(list_missed_slots(span), MAX_CATCH_UP))[::-1]
    if len(found) < MAX_CATCH_UP or not isinstance(schedule, CronSchedule):
        return found, 0
    delay = choose_stagger(job, schedule.stagger_ms)
    zone = find_time_zone(schedule.tz or tz)
    return found, _count(_line(schedule.expr), after - delay, found[0] - delay - 1, zone)


def _count(line: CronLine, after: int, upto: int, tz: tzinfo) -> int:
    """How many times of a line are in (after, upto]. Whole days and hours are counted at once, or a year of seconds
    would take minutes; one by one where they are cut, or where the clocks change."""
    each, count = len(line.minutes) * len(line.seconds), 0
    while after < upto:
        here = (_EPOCH + timedelta(milliseconds=after + 1)).astimezone(tz)
        first, last = (_ms(to_instant(datetime.combine(here.date() + n * DAY, time()), tz)) - 1 for n in (0, 1))
        usual = last - first == DAY_MS
        if usual and first == after and last <= upto:
            count, after = count + len(line.hours) * each * line.on(here.date()), last
            continue
        begun = here.minute * 60_000 + here.second * 1000 + here.microsecond // 1000
        last = min(last, after - begun + HOUR_MS, upto)
        whole = last - after == HOUR_MS and _offset(here, tz) == _offset(here + timedelta(minutes=59, seconds=59), tz)
        if whole and (usual or line.hourly):
            count += (here.hour in line.hours) * each * line.on(here.date())
        else:
            while (found := _cron(line, after, tz)) is not None and found <= last:
                count, after = count + 1, found
        after = last
    return count


class MissedSpan(msgspec.Struct, frozen=True):
    """All due times of `schedule` in (after, upto], one line of a job's history. `tz` is the owner's zone then, `job`
    gives the stagger, `why` is what is said of each."""

    job: str
    after: int
    upto: int
    count: int
    schedule: Schedule
    why: str
    tz: str = ""


def list_missed_slots(missed: MissedSpan) -> Iterator[int]:
    """Each of them, the latest first."""
    match missed.schedule:
        case AtSchedule(at):
            if missed.after < at <= missed.upto:
                yield at
        case EverySchedule(every, anchor):
            last = anchor + (missed.upto - anchor) // every * every
            yield from range(last, max(missed.after, anchor - 1), -every)
        case CronSchedule():
            yield from _lines(missed)


def _lines(missed: MissedSpan) -> Iterator[int]:
    """A cron line only knows what follows, so it is asked for pieces of the past, from the end."""
    high, span = missed.upto, PIECE
    while high > missed.after:
        low, found = max(missed.after, high - span), list[int]()
        at = find_next_due(missed.schedule, low, missed.tz, missed.job)
        while at is not None and at <= high:
            found.append(at)
            at = find_next_due(missed.schedule, at, missed.tz, missed.job)
        yield from reversed(found)
        high, span = low, span * 2 if len(found) < FEW else span


def unfold_history(entries: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A history with one line for each due time. One that was passed over while the clock was wrong, and then came
    again and ran, has the line of its run."""
    whole = list(entries)
    seen = {(entry["jobId"], entry["runAtMs"]) for entry in whole if "missed" not in entry}
    for entry in whole:
        if "missed" not in entry:
            yield entry
            continue
        plain = {key: value for key, value in entry.items() if key != "missed"}
        row = msgspec.convert(entry["missed"], MissedSpan)
        for due in list_missed_slots(row):
            if (row.job, due) not in seen:
                seen.add((row.job, due))
                yield {**plain, "runId": f"{row.job}:{due}", "runAtMs": due, "summary": row.why}
