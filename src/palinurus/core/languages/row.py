"""What a language has to say of promises: what is one, what only looks like one, and which time is meant.

Between a verb and its time stands what is done. `build_gap_pattern` takes words behind which the time may belong to the
thing and not to the doing: "I'll check the weather for tomorrow" is done now.
"""

from __future__ import annotations

import re

import msgspec

from palinurus.patterns import compile_late

_UNITS = (60_000, 3_600_000, 86_400_000, 604_800_000)  # milliseconds: minute, hour, day, week
# Words of a table -> (days from today, hour), in the order in which they are asked.
_DAYS = {"overmorrow": (2, 9), "tomorrow": (1, 9), "evening": (0, 20), "afternoon": (0, 17), "week": (7, 9)}


class PromiseLanguage(msgspec.Struct, frozen=True):
    """`amount` has the groups (number, unit), `clock` (hour, minutes or None, am/pm or None)."""

    mark: re.Pattern[str]  # found in every promise, and cheap
    promise: re.Pattern[str]
    never: re.Pattern[str]  # nothing the agent could do by itself, or nothing it has promised
    amount: re.Pattern[str]
    numbers: dict[str, float]
    units: dict[str, int]  # by the beginning of the word
    days: tuple[tuple[re.Pattern[str], int, int], ...]  # words -> (days from today, hour)
    clock: re.Pattern[str]


class LanguageTable(msgspec.Struct, frozen=True):
    """A `PromiseLanguage` as expressions; of `promise` and `never` one is enough. Each language's file is one."""

    mark: str
    promise: tuple[str, ...]
    never: tuple[str, ...]
    amount: str
    numbers: dict[str, float]
    units: tuple[str, str, str, str]  # beginnings of the words for minute, hour, day, week
    days: dict[str, str]  # overmorrow, tomorrow, evening, afternoon, week
    clock: str

    def compile(self) -> PromiseLanguage:
        """Its patterns, each made when it is first needed: those for promises take longer than all else of a first
        message, and most replies have not even the mark of one."""
        mark, promise, never, amount, clock = (
            compile_late(text, re.I)
            for text in (self.mark, "|".join(self.promise), "|".join(self.never), self.amount, self.clock)
        )
        days = tuple((compile_late(self.days[name], re.I), *when) for name, when in _DAYS.items() if name in self.days)
        units = dict(zip(self.units, _UNITS, strict=True))
        return PromiseLanguage(mark, promise, never, amount, numbers=self.numbers, units=units, days=days, clock=clock)


def build_gap_pattern(*words: str) -> str:
    return rf"(?:(?!\b(?:{'|'.join(words)})\b)[^.!?\n;:]){{0,80}}?"
