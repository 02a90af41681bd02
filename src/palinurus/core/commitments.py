"""Promises in a reply: "I'll check tonight". Found by rule, and only where nothing else can be meant: a first person, a
verb of doing, and a time that is not now. Offers, questions, conditions on the person, quotes and code are none.

How that sounds is a row for each language (`tongues`). Pure; measured on a corpus in the tests.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

from palinurus.core.languages.english import build_english
from palinurus.core.languages.french import build_french
from palinurus.core.languages.german import build_german
from palinurus.core.languages.italian import build_italian
from palinurus.core.languages.portuguese import build_portuguese
from palinurus.core.languages.row import PromiseLanguage
from palinurus.core.languages.spanish import build_spanish
from palinurus.core.schedule.fire import find_time_zone

# All languages in which promises are noticed.


@cache
def list_languages() -> tuple[PromiseLanguage, ...]:
    """Every language's row, in the order in which they are asked."""
    return (build_english(), build_german(), build_spanish(), build_french(), build_portuguese(), build_italian())


MAX_PROMISES = 3  # of one reply
LONG = 300  # characters of one sentence; longer ones are no promises
SOON = 3_600_000  # milliseconds, where nothing says when

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.S)
_QUOTED = re.compile(r"„[^“”]*[“”]|“[^”]*”|\"[^\"\n]*\"|«[^»]*»|^[ \t]*>.*$", re.M)
_SENTENCE = re.compile(r"[^.!?\n;]+(?:[.!?;]+|\n|\Z)")


class Promise(NamedTuple):
    """One sentence of the agent's."""

    text: str


def find_promises(reply: str) -> tuple[Promise, ...]:
    """What it promised, in order; nothing is better than something wrong."""
    plain = _QUOTED.sub(" ", _CODE.sub(" ", reply[:20_000]))
    made: list[Promise] = []
    for match in _SENTENCE.finditer(plain):
        line = " ".join(match[0].split()).strip("-*• ")
        if len(line) <= LONG and not line.endswith("?") and _promises(line):
            made.append(Promise(line))
    return tuple(made[:MAX_PROMISES])


def _promises(line: str) -> bool:
    """In one of the languages, and in none that it may be in only seemingly."""
    heard = [tongue for tongue in list_languages() if tongue.promise.search(line)]
    return bool(heard) and not any(tongue.never.search(line) for tongue in heard)


def parse_due_time(text: str, now: int, tz: str) -> int:
    """When it should be kept, from its own words; an hour from now where they do not say."""
    for tongue in list_languages():
        if match := tongue.amount.search(text):
            return now + _amount(tongue, match[1], match[2])
    here = datetime.fromtimestamp(now / 1000, UTC).astimezone(find_time_zone(tz))
    rows = [row for tongue in list_languages() for row in tongue.days]
    days, hour, minute = next(((d, h, 0) for pattern, d, h in rows if pattern.search(text)), (0, -1, 0))
    if clock := next((found for tongue in list_languages() if (found := tongue.clock.search(text))), None):
        hour, minute = int(clock[1]), int(clock[2] or 0)
        if clock[3]:
            hour = hour % 12 + (12 if clock[3].lower() == "pm" else 0)
    if not 0 <= hour < 24 or minute > 59:
        return now + SOON
    then = here.replace(hour=hour, minute=minute, second=0, microsecond=0) + timedelta(days=days)
    if then <= here:
        then += timedelta(days=1)
    return int(then.timestamp() * 1000)


def _amount(tongue: PromiseLanguage, number: str, unit: str) -> int:
    word = " ".join(number.lower().split())
    size = next(ms for name, ms in tongue.units.items() if unit.lower().startswith(name))
    return int((tongue.numbers.get(word) or float(word)) * size)


def share_topic(one: str, other: str) -> bool:
    """Do two texts speak of the same thing, as far as a long word in common can tell?"""
    first, second = (set(re.findall(r"[^\W\d_]{5,}", text.lower())) - _COMMON for text in (one, other))
    return bool(first & second)


_COMMON = frozenset((
    "remind", "reminder", "check", "again", "later", "tomorrow", "tonight", "about", "there", "their", "would", "could",
    "please", "morgen", "später", "abend", "nochmal", "erinnere", "prüfe", "mañana", "tarde", "noche", "revisaré",
    "demain", "matin", "vérifierai", "rappellerai", "amanhã", "noite", "verificar", "domani", "stasera", "controllerò",
))  # fmt: skip
