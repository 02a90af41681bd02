"""Which time to believe before something is deleted for its age. Pure.

One reading of the clock proves nothing: a machine may start with a clock that is a year ahead. A leap is believed when
the clock still says so the next day; until then nothing gets older. A clock that goes back is believed at once: what
is too young stays.
"""

from __future__ import annotations

import msgspec

DAY = 86_400_000
LEAP = 2 * DAY  # between two readings, which are a day apart at most while the program runs
LONG_ENOUGH = 20 * 3_600_000  # between the first reading after a leap and the one that proves it
SOON = 40 * DAY  # a second reading later than this after the first is a leap of its own


class BelievedTime(msgspec.Struct, frozen=True):
    """`at`: the last time that was believed, 0 on a new database. `leap`: when a leap from it was first read."""

    at: int = 0
    leap: int = 0


def believe_time(seen: BelievedTime, now: int) -> BelievedTime:
    """What is believed after the clock has been read as `now`."""
    if now <= seen.at + LEAP:
        return BelievedTime(now)
    if seen.leap and 0 <= now - seen.leap < LONG_ENOUGH:
        return seen
    return BelievedTime(now) if seen.leap <= now <= seen.leap + SOON else BelievedTime(seen.at, now)
