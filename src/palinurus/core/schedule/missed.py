"""Due times that were passed over. A row of them is one line of a job's history, and holds what it takes to say each
of them again: every due time has one receipt, also where there were a hundred thousand. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from palinurus.core.schedule.fire import AtSchedule, CronSchedule, EverySchedule, Schedule, find_next_due

PIECE = 3_600_000  # ms: of a cron line's past that is looked at first; more where little is found
FEW = 50


class MissedSpan(msgspec.Struct, frozen=True):
    """All due times of `schedule` in (after, upto]. `tz` is the owner's zone then, `job` gives the stagger, `why` is
    what is said of each."""

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
