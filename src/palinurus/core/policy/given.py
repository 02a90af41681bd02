"""Is a value the owner's? It is if it stands as a whole in the owner's words, is the same number or day written another
way, or is the id (or address) of a thing that the owner called by its name. Pure.

Names: a record of a JSON result is called by name if its title, subject, file name … stands in the owner's words and is
two words or more, was quoted, or is a file's. Only fields of the argument's own kind count (`event_id` is looked for in
`id`, `recipients` in `sender`), never running text; and of several records with that name all must have the value, so
that a stranger's namesake is a question, not an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from palinurus.patterns import compile_late

MAX_TEXT = 200_000  # characters of one message that are searched
MAX_RECORDS = 5_000

_NUMBER = compile_late(r"-?\d+(?:[.,]\d+)*")
_MONEY = compile_late(
    r"[$€£¥]\s?\d[\d.,]{0,20}|\b\d[\d,]{0,20}\.\d{2}\b(?![.\d])|\b\d[\d.,]{0,20}\s?(?:eur|euros?|usd|dollars?|gbp|pounds?)\b"
)
_SENTENCE = compile_late(r"(?<=[a-z0-9])\.(?=[A-Z][a-z])")  # a full stop without its blank
_MONTH = {
    name: at
    for at, row in enumerate(
        "jan january januar janvier enero|feb february februar février febrero|mar march märz mars marzo|"
        "apr april avril abril|may mai mayo|jun june juni juin junio|jul july juli juillet julio|"
        "aug august août agosto|sep sept september septembre septiembre|oct october oktober octobre octubre|"
        "nov november novembre noviembre|dec december dezember décembre diciembre".split("|"),
        1,
    )
    for name in row.split()
}  # fmt: skip
_ISO = compile_late(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[t ](\d{1,2}):(\d{2})(?::\d{2})?)?z?")
_DOTTED = compile_late(r"\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b")
_NAMED = compile_late(r"\b(\d{1,2})(?:st|nd|rd|th|\.)?(?: of| de)? ([^\W\d_]{3,10})\b\.?(?:,? (\d{4})\b)?")
_NAMED_US = compile_late(r"\b([^\W\d_]{3,10})\.? (\d{1,2})(?:st|nd|rd|th)?\b(?:,? (\d{4})\b)?")
_TIME = compile_late(r"\b(\d{1,2})(?::(\d{2}))?\s?(am|pm)?\b")
_TWO_WORDS = compile_late(r"[^\W\d_]{4,} [^\W\d_]{4,}")
_QUOTED = compile_late(r"['\"“‘«„]([^'\"“”‘’«»„]{2,80})['\"”’»“]")

NAME_KEYS = frozenset("name title subject filename file_name label summary".split())
# Kinds of fields, by the last word of their names: values of one kind may stand for each other.
_KINDS: tuple[frozenset[str], ...] = (
    frozenset("id ident uid uuid key".split()),
    frozenset(
        "email mail address sender from to cc bcc recipient participant attendee user contact member owner".split()
    ),
)


class OwnerWords(msgspec.Struct, frozen=True):
    """What the owner said, prepared for comparisons. `texts`: also results that no outsider writes into."""

    texts: tuple[str, ...] = ()
    quoted: frozenset[str] = frozenset()
    numbers: frozenset[float] = frozenset()
    sums: frozenset[float] = frozenset()  # of money
    days: frozenset[tuple[int, int, int]] = frozenset()  # year 0: it was not said
    times: frozenset[tuple[int, int]] = frozenset()


def read_words(said: Sequence[str], own: Sequence[str] = ()) -> OwnerWords:
    """The owner's messages, and results that hold nobody else's words."""
    parts = [*(_read_text(text, spoken=True) for text in said), *(_read_text(text, spoken=False) for text in own)]
    if len(parts) == 1:
        return parts[0]
    return OwnerWords(
        texts=tuple(text for part in parts for text in part.texts),
        quoted=frozenset().union(*(part.quoted for part in parts)),
        numbers=frozenset().union(*(part.numbers for part in parts)),
        sums=frozenset().union(*(part.sums for part in parts)),
        days=frozenset().union(*(part.days for part in parts)),
        times=frozenset().union(*(part.times for part in parts)),
    )


@lru_cache(maxsize=256)  # the same messages stand before every call of a conversation
def _read_text(whole: str, *, spoken: bool) -> OwnerWords:
    text = whole[:MAX_TEXT]
    plain = fold(_SENTENCE.sub(". ", text) if spoken else text)
    found = [_worth(re.sub(r"[^\d.,]", "", one).rstrip(".,")) for one in _MONEY.findall(plain)] if spoken else []
    return OwnerWords(
        texts=(plain,),
        quoted=frozenset(map(fold, _QUOTED.findall(text))) if spoken else frozenset(),
        numbers=frozenset(_list_numbers(plain)),
        sums=frozenset(one for one in found if isinstance(one, float)),
        days=frozenset(_list_days(plain)),
        times=frozenset(_list_times(plain)) if spoken else frozenset(),
    )


def fold(text: str) -> str:
    """Case and blanks do not count."""
    return " ".join(text.casefold().split())


def is_given(value: str, words: OwnerWords) -> bool:
    """Does it stand there as a whole, or is it a number or a day that stands there in another form?"""
    wanted = fold(value)
    if _NUMBER.fullmatch(wanted):
        return _worth(wanted) in words.numbers
    return any(stands_in(wanted, text) for text in words.texts) or _is_day_given(wanted, words)


def is_within(value: str, words: OwnerWords) -> bool:
    """Is it an amount that the owner wrote, or one that is not above a sum of money the owner wrote?"""
    worth = _worth(fold(value))
    return isinstance(worth, float) and (worth in words.numbers or 0 <= worth <= max(words.sums, default=0.0))


def is_called_by_name(argument: str, value: str, words: OwnerWords, results: Iterable[str]) -> bool:
    """Is it the id or the address of a thing in these results (texts) that the owner called by its name?"""
    named: dict[str, list[bool]] = {}
    wanted, spoken = fold(value), "\n".join(words.texts)
    for record in list_records(results):
        for key, name in record.items():
            if key.casefold() in NAME_KEYS and isinstance(name, str) and (called := _find_called(name, words, spoken)):
                held = {fold(str(one)) for field, one in list_fields(record) if is_alike(argument, field)}
                for form in called:
                    named.setdefault(form, []).append(wanted in held)
    return any(all(holds) for holds in named.values())


def weigh(value: str) -> float | None:
    """The number that a value is."""
    worth = _worth(fold(value))
    return worth if isinstance(worth, float) else None


def is_iso_day(text: str) -> bool:
    """A day, perhaps with a time, written so that the order of letters is the order of time?"""
    return len(text) >= 10 and text[4] == text[7] == "-" and _ISO.match(text) is not None


def decode_json(text: str) -> Any:
    """The value of a result that is JSON; None otherwise."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.decode(text[:MAX_TEXT].encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def stands_in(wanted: str, text: str) -> bool:
    """Both folded: as a whole, not as a part of something longer."""
    at = text.find(wanted)
    while at >= 0:
        before, after = text[at - 1 : at] if at else "", text[at + len(wanted) : at + len(wanted) + 2]
        if not _joins(before) and (not _joins(after[:1]) or (after[:1] in ".-@?" and not _joins(after[1:]))):
            return True
        at = text.find(wanted, at + 1)
    return False


def _joins(letter: str) -> bool:
    return bool(letter) and (letter.isalnum() or letter in "_@.-/%+=&?#")


def _worth(text: str) -> float | str:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text


def _list_numbers(text: str) -> Iterator[float]:
    """Those that are no part of a day: who speaks of June 13 has not named file 13."""
    for pattern in (_ISO, _DOTTED, _NAMED, _NAMED_US):
        text = pattern.sub(lambda found: " " if _holds_month(found) else found[0], text)
    for one in _NUMBER.findall(text):
        if isinstance(worth := _worth(one.rstrip(".,")), float):
            yield worth


def _holds_month(found: re.Match[str]) -> bool:
    words = [part for part in found.groups() if part and not part.isdigit()]
    return not words or any(word in _MONTH for word in words)


# days and times


def _list_days(text: str) -> Iterator[tuple[int, int, int]]:
    yield from ((int(y), int(m), int(d)) for y, m, d, *_ in _ISO.findall(text))
    yield from ((int(y), int(m), int(d)) for d, m, y in _DOTTED.findall(text))
    yield from ((int(y or 0), _MONTH[m], int(d)) for d, m, y in _NAMED.findall(text) if m in _MONTH)
    yield from ((int(y or 0), _MONTH[m], int(d)) for m, d, y in _NAMED_US.findall(text) if m in _MONTH)


def _list_times(text: str) -> Iterator[tuple[int, int]]:
    for hour, minute, half in _TIME.findall(text):
        if minute or half:
            yield int(hour) % 12 + 12 * (half == "pm") if half else int(hour), int(minute or 0)
    if "noon" in text:
        yield 12, 0
    if "midnight" in text:
        yield 0, 0


def _is_day_given(wanted: str, words: OwnerWords) -> bool:
    """A day is given if the owner named it; a time with it only if that was written too."""
    match = _ISO.fullmatch(wanted)
    if match is None:
        return False
    year, month, day = (int(part) for part in match.groups()[:3])
    if not {(year, month, day), (0, month, day)} & words.days:
        return False
    time = (int(match[4]), int(match[5])) if match[4] else (0, 0)
    return time == (0, 0) or time in words.times


# things by name


def _find_called(name: str, words: OwnerWords, spoken: str) -> set[str]:
    """The forms of this name in the owner's words. Of a file's name the first two words will do, if no other file has
    them (each form is judged with all records that have it)."""
    plain = fold(name)
    bare = re.sub(r"\.\w{1,5}$", "", plain)
    stem = re.sub(r"[-_ ]+", " ", bare)
    if len(plain) < 4:
        return set()
    found = {form for form in (plain, stem) if " " in form and stands_in(form, spoken)}
    if plain in words.quoted or ("." in plain.strip(".") and " " not in plain and stands_in(plain, spoken)):
        found.add(plain)
    first = " ".join(stem.split()[:2])
    if bare != plain and " " not in plain and _TWO_WORDS.fullmatch(first) and stands_in(first, spoken):
        found.add(first)
    return found


def is_alike(argument: str, field: str) -> bool:
    """Are both names of the same kind of thing: may one's value stand for the other's?"""
    one, other = (_last_word(name) for name in (argument, field))
    return one == other or any(one in kind and other in kind for kind in _KINDS)


def _last_word(name: str) -> str:
    words = [word for word in re.split(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])", name) if word]
    last = words[-1].casefold() if words else ""
    return last[:-1] if last.endswith("s") and len(last) > 3 else last


def list_fields(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Its scalars, and those in its lists."""
    for key, value in record.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, (str, int, float)) and not isinstance(one, bool):
                yield key, one


def list_records(results: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """Every object in these results that are JSON."""
    count = 0
    for text in results:
        waiting: list[Any] = [decode_json(text)]
        while waiting and count < MAX_RECORDS:
            one = waiting.pop()
            count += 1
            if isinstance(one, dict):
                yield one
                waiting += one.values()
            elif isinstance(one, list):
                waiting += one
