"""Promises in a reply: "I'll check tonight". Found by rule, and only where nothing else can be meant: a first person, a
verb of doing, and a time that is not now. Offers, questions, conditions on the person, quotes and code are none.

How that sounds is a table for each language (`core/languages`). Pure; measured on a corpus in the tests.
"""

from __future__ import annotations

import re
from datetime import timedelta
from functools import cache

from palinurus.core.languages.english import ENGLISH
from palinurus.core.languages.french import FRENCH
from palinurus.core.languages.german import GERMAN
from palinurus.core.languages.italian import ITALIAN
from palinurus.core.languages.portuguese import PORTUGUESE
from palinurus.core.languages.row import PromiseLanguage
from palinurus.core.languages.spanish import SPANISH
from palinurus.core.schedule.fire import find_time_zone
from palinurus.core.text import to_datetime
from palinurus.patterns import compile_late

MAX_PROMISES = 3  # of one reply
LONG = 300  # characters of one sentence; longer ones are no promises
SOON = 3_600_000  # milliseconds, where nothing says when

_CODE = compile_late(r"```.*?(?:```|\Z)|`[^`\n]*`", re.S)
_QUOTED = compile_late(r"„[^„“”]*[“”]|“[^“”]*”|\"[^\"\n]*\"|«[^«»]*»|^[ \t]*>.*$", re.M)
_SENTENCE = compile_late(r"[^.!?\n;]+(?:[.!?;]+|\n|\Z)")


@cache
def list_languages() -> tuple[PromiseLanguage, ...]:
    """Every language, in the order in which they are asked."""
    return tuple(table.compile() for table in (ENGLISH, GERMAN, SPANISH, FRENCH, PORTUGUESE, ITALIAN))


def find_promises(reply: str) -> tuple[str, ...]:
    """The sentences that promise something, in order; nothing is better than something wrong."""
    plain = _QUOTED.sub(" ", _CODE.sub(" ", reply[:20_000]))
    made: list[str] = []
    for match in _SENTENCE.finditer(plain):
        line = " ".join(match[0].split()).strip("-*• ")
        if len(line) <= LONG and not line.endswith("?") and _promises(line):
            made.append(line)
    return tuple(made[:MAX_PROMISES])


def _promises(line: str) -> bool:
    """In one of the languages, and in none that it may be in only seemingly."""
    heard = [one for one in list_languages() if one.mark.search(line) and one.promise.search(line)]
    return bool(heard) and not any(language.never.search(line) for language in heard)


def parse_due_time(text: str, now: int, tz: str) -> int:
    """When it should be kept, from its own words; an hour from now where they do not say."""
    for language in list_languages():
        if match := language.amount.search(text):
            return now + _amount(language, match[1], match[2])
    here = to_datetime(now, find_time_zone(tz))
    rows = [row for language in list_languages() for row in language.days]
    days, hour, minute = next(((d, h, 0) for pattern, d, h in rows if pattern.search(text)), (0, -1, 0))
    if clock := next((found for language in list_languages() if (found := language.clock.search(text))), None):
        hour, minute = int(clock[1]), int(clock[2] or 0)
        if clock[3]:
            hour = hour % 12 + (12 if clock[3].lower() == "pm" else 0)
    if not 0 <= hour < 24 or minute > 59:
        return now + SOON
    then = here.replace(hour=hour, minute=minute, second=0, microsecond=0) + timedelta(days=days)
    if then <= here:
        then += timedelta(days=1)
    return int(then.timestamp() * 1000)


def _amount(language: PromiseLanguage, number: str, unit: str) -> int:
    word = " ".join(number.lower().split())
    size = next(ms for name, ms in language.units.items() if unit.lower().startswith(name))
    return int((language.numbers.get(word) or float(word)) * size)


def share_topic(one: str, other: str) -> bool:
    """Do two texts speak of the same thing, as far as a long word in common can tell?"""
    first, second = (set(re.findall(r"[^\W\d_]{5,}", text.lower())) - _COMMON for text in (one, other))
    return bool(first & second)


_COMMON = frozenset((
    "remind", "reminder", "check", "again", "later", "tomorrow", "tonight", "about", "there", "their", "would", "could",
    "please", "morgen", "später", "abend", "nochmal", "erinnere", "prüfe", "mañana", "tarde", "noche", "revisaré",
    "demain", "matin", "vérifierai", "rappellerai", "amanhã", "noite", "verificar", "domani", "stasera", "controllerò",
))  # fmt: skip
