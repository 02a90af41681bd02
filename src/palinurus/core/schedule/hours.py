"""Active hours: from 08:00 to 22:00, or over midnight; 24:00 is the end of the day. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class HeartbeatHours(msgspec.Struct, frozen=True):
    """Minutes of the day. The same twice: no time at all."""

    start: int = 0
    end: int = 1440

    def open(self, now: int, tz: tzinfo) -> bool:
        """Is it within them?"""
        local = (_EPOCH + timedelta(milliseconds=now)).astimezone(tz)
        minute = local.hour * 60 + local.minute
        if self.start <= self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


def parse_minutes(text: str | None, otherwise: int) -> int:
    """Of "08:30"; what cannot be read counts as not said."""
    hour, colon, minute = (text or "").strip().partition(":")
    if not colon or not (hour.isdecimal() and minute.isdecimal()):
        return otherwise
    value = int(hour) * 60 + int(minute)
    return value if value <= 1440 else otherwise
