"""Promises in a reply: "I'll check tonight". Found by rule, and only where nothing else can be meant: a first person, a
verb of doing, and a time that is not now. Offers, questions, conditions on the person, quotes and code are none.

English only. Pure; measured on a corpus in the tests.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from palinurus.core.schedule.fire import zone

MOST = 3  # of one reply
LONG = 300  # characters of one sentence; longer ones are no promises
SOON = 3_600_000  # milliseconds, where nothing says when

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.S)
_QUOTED = re.compile(r"“[^”]*”|\"[^\"\n]*\"|«[^»]*»|^[ \t]*>.*$", re.M)
_SENTENCE = re.compile(r"[^.!?\n;]+(?:[.!?;]+|\n|\Z)")
_WILL = (
    r"\bI(?:['’]ll|\s+will|['’]m\s+going\s+to|\s+am\s+going\s+to)\s+"
    r"(?:(?:also|then|definitely|certainly|just|(?:be|make)\s+sure\s+to)\s+)*"
)
# Promises by themselves: they only make sense later.
_LATER_VERBS = (
    r"(?:get\s+back\s+to\s+you|check\s+back|report\s+back|follow\s+up(?!\s+(?:each|every|all|the|this|that)\b)|keep\s+(?:an\s+eye|you\s+(?:posted|updated|informed))"
    r"|let\s+you\s+know\s+(?:when|once|as\s+soon\s+as|how\s+it)|remind\s+you(?!\s+that)|(?:notify|ping|alert)\s+you"
    r"|circle\s+back|come\s+back\s+to\s+(?:you|this))"
)  # fmt: skip
_VERBS = (
    r"(?:check|look|send|try|run|review|update|finish|continue|write|prepare|ask|call|test|do|search|post|share"
    r"|summari[sz]e|monitor|watch|take\s+(?:another|a)\s+look|have\s+(?:it|this|that)\s+ready)\b"
)
_TIMES = (
    r"(?:tonight|tomorrow|this\s+(?:evening|afternoon)|later(?:\s+today)?|next\s+(?:week|month|\w+day)|in\s+the\s+morning"
    r"|in\s+(?:an?|\d{1,3}|a\s+few|half\s+an|two|three|five|ten)\s+(?:minutes?|hours?|days?|weeks?|hour)"
    r"|(?:on|by)\s+(?:mon|tues|wednes|thurs|fri|satur|sun)day|every\s+(?:day|hour|morning|evening|week)"
    r"|at\s+(?:\d{1,2}(?::\d\d)?\s*(?:am|pm|o['’]clock)|\d{1,2}:\d\d|noon|midnight)|end\s+of\s+(?:the\s+)?day)"
)
# Between the verb and the time stands what is done. With one of these words the time may be its, not the doing's:
# "I'll check the weather for tomorrow" is done now.
_BETWEEN = (
    r"(?:\s+(?:you|him|her|them)\b)?(?:(?!\b(?:for|of|with|that|which|so|if|what|whether|who|how|you|your|saying|leaving|listing"
    r"|starting|calendar|weather|events?|meetings?|appointments?|forecast|runs?|due)\b)[^.!?\n;:]){0,80}?\b"
)
# The time ends its clause: "the later snapshot" and "tomorrow's entry" are things.
_END = r"(?=(?:\s+(?:morning|evening|afternoon|night|today|again))?\s*(?:[.!;,)–—-]|$|and\b|at\b|before\b|to\b))"
_PROMISE = re.compile(rf"{_WILL}(?:{_LATER_VERBS}|{_VERBS}{_BETWEEN}{_TIMES}{_END})", re.I)
# Nothing the agent could do by itself, or nothing it has promised.
_NOT = re.compile(
    r"\bif\s+(?:you|that|it|this|needed|so|not|necessary|there)|\bunless\b|\b(?:once|when|after|until|as\s+soon\s+as|whenever)\s+you(?:['’]\w+|r)?\b"
    r"|\b(?:would|could|should|shall)\s+I\b|\bor\s+I['’]ll\b|\bsay\s+(?:so|yes)\b|\bjust\s+(?:say|tell|ask|let)\b|\blet\s+me\s+know\b"
    r"|\bthen\s+I['’]ll\b|\bexample\b|\bsaying\b|\b(?:you|he|she|they|wrote|said)\s*[:,]\s*I['’]ll|\bright\s+(?:now|away)\b|\bnext\s+time\b|\bwant\s+me\b|\bin\s+future\b|\bfrom\s+now\b|\bdon['’]t\b",
    re.I,
)  # fmt: skip
_IN = re.compile(r"\bin\s+(an?|\d{1,3}|a\s+few|half\s+an|two|three|five|ten)\s+(minute|hour|day|week)s?", re.I)
_NUMBERS = {"a": 1.0, "an": 1.0, "a few": 3.0, "half an": 0.5, "two": 2.0, "three": 3.0, "five": 5.0, "ten": 10.0}
_UNITS = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}
_AT = re.compile(r"\bat\s+(\d{1,2})(?::(\d\d))?\s*(am|pm)?", re.I)
# words -> (days from today, hour)
_DAYS: tuple[tuple[re.Pattern[str], int, int], ...] = (
    (re.compile(r"\btonight\b|this\s+evening|every\s+evening", re.I), 0, 20),
    (re.compile(r"this\s+afternoon|\bat\s+noon|end\s+of\s+(?:the\s+)?day", re.I), 0, 17),
    (re.compile(r"\btomorrow\b|in\s+the\s+morning|every\s+(?:day|morning)", re.I), 1, 9),
    (re.compile(r"next\s+week|every\s+week", re.I), 7, 9),
)


class Promise(NamedTuple):
    """One sentence of the agent's."""

    text: str


def found(reply: str) -> tuple[Promise, ...]:
    """What it promised, in order; nothing is better than something wrong."""
    plain = _QUOTED.sub(" ", _CODE.sub(" ", reply[:20_000]))
    made: list[Promise] = []
    for match in _SENTENCE.finditer(plain):
        line = " ".join(match[0].split()).strip("-*• ")
        if len(line) > LONG or line.endswith("?") or not _PROMISE.search(line) or _NOT.search(line):
            continue
        made.append(Promise(line))
    return tuple(made[:MOST])


def due(text: str, now: int, tz: str) -> int:
    """When it should be kept, from its own words; an hour from now where they do not say."""
    if match := _IN.search(text):
        word = " ".join(match[1].lower().split())
        return now + int((_NUMBERS.get(word) or float(word)) * _UNITS[match[2].lower()])
    here = datetime.fromtimestamp(now / 1000, UTC).astimezone(zone(tz))
    days, hour, minute = next(((d, h, 0) for pattern, d, h in _DAYS if pattern.search(text)), (0, -1, 0))
    if clock := _AT.search(text):
        hour, minute = int(clock[1]), int(clock[2] or 0)
        if clock[3]:
            hour = hour % 12 + (12 if clock[3].lower() == "pm" else 0)
    if not 0 <= hour < 24 or minute > 59:
        return now + SOON
    then = here.replace(hour=hour, minute=minute, second=0, microsecond=0) + timedelta(days=days)
    if then <= here:
        then += timedelta(days=1)
    return int(then.timestamp() * 1000)


def shared(one: str, other: str) -> bool:
    """Do two texts speak of the same thing, as far as a long word in common can tell?"""
    first, second = (set(re.findall(r"[^\W\d_]{5,}", text.lower())) - _COMMON for text in (one, other))
    return bool(first & second)


_COMMON = frozenset(
    [
        "remind",
        "reminder",
        "check",
        "again",
        "later",
        "tomorrow",
        "tonight",
        "about",
        "there",
        "their",
        "would",
        "could",
        "please",
    ]
)
