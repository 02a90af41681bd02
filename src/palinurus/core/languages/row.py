"""What a language has to say of promises: what is one, what only looks like one, and which time is meant.

Between a verb and its time stands what is done. `between` lists words behind which the time may belong to the thing and
not to the doing: "I'll check the weather for tomorrow" is done now.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MINUTE, HOUR, DAY, WEEK = 60_000, 3_600_000, 86_400_000, 604_800_000  # milliseconds


class PromiseLanguage(NamedTuple):
    """`amount` has the groups (number, unit), `clock` (hour, minutes or None, am/pm or None)."""

    promise: re.Pattern[str]
    never: re.Pattern[str]  # nothing the agent could do by itself, or nothing it has promised
    amount: re.Pattern[str]
    numbers: dict[str, float]
    units: dict[str, int]  # by the beginning of the word
    days: tuple[tuple[re.Pattern[str], int, int], ...]  # words -> (days from today, hour)
    clock: re.Pattern[str]


def compile_any(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.I)


def compile_days(**rows: str) -> tuple[tuple[re.Pattern[str], int, int], ...]:
    """evening, afternoon, overmorrow, tomorrow, week: in this order."""
    when = {"overmorrow": (2, 9), "tomorrow": (1, 9), "evening": (0, 20), "afternoon": (0, 17), "week": (7, 9)}
    return tuple((re.compile(rows[name], re.I), *when[name]) for name in when if name in rows)


def build_gap_pattern(*words: str) -> str:
    return rf"(?:(?!\b(?:{'|'.join(words)})\b)[^.!?\n;:]){{0,80}}?"
