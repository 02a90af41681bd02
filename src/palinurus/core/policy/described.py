"""Things that the owner described instead of naming them: the largest file, the channel that begins with X, the e-mail
on a page the owner pointed at, no more than what was paid before. Pure.

A description decides only where it leaves nothing to choose: the list was asked for whole (a call without arguments, or
with words and days of the owner's alone; the first one after the owner spoke, so that no order can narrow it or have it
made again), and one thing in it fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from palinurus.core.policy import given
from palinurus.core.policy.spoken import is_owners
from palinurus.core.policy.taint import pair_results
from palinurus.core.types.messages import Message, ToolCall, ToolResult
from palinurus.core.types.tool import Tool, ToolReach
from palinurus.patterns import compile_late

_SIZES = frozenset("size bytes length".split())
_DATES = frozenset("date time timestamp created modified updated sent received start".split())
_PRICES = frozenset("price cost amount total fee".split())
_RATINGS = frozenset("rating score stars".split())
# A superlative, the fields it speaks of, and whether the greatest is meant.
_MOST: dict[str, tuple[frozenset[str], bool]] = {
    **dict.fromkeys(("largest", "biggest"), (_SIZES, True)),
    "smallest": (_SIZES, False),
    **dict.fromkeys(("newest", "latest", "last", "most recent"), (_DATES, True)),
    **dict.fromkeys(("oldest", "earliest"), (_DATES, False)),
    "cheapest": (_PRICES, False),
    "most expensive": (_PRICES, True),
    "best rated": (_RATINGS, True),
}
_SUPERLATIVE = compile_late(rf"\b({'|'.join(_MOST)})((?: [^\W\d_]+){{1,2}})")
_PART = compile_late(
    r"\b(?:start|begin|end)(?:s|ing|ning)? with (?:the (?:letters?|words?) )?['\"“‘]?([\w][\w.-]{1,40}\w)"
)
_EMAIL = compile_late(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_EMAIL_WORDS = compile_late(r"\be-?mails?\b|\bmail address")
_SENTENCE = compile_late(r"[.!?;]\s|\n")
MAX_LISTED = 5_000


def is_described(
    tool: Tool, name: str, value: str, *, words: given.OwnerWords, last: str, messages: Sequence[Message]
) -> bool:
    """Did the owner describe this value of the argument `name` so that it could be no other?"""
    if tool.reach is None:
        return False  # nobody said what the argument is
    start = max((at for at, m in enumerate(messages) if is_owners(m)), default=0)
    made = _list_results(messages[start:])
    folded, wanted = given.fold(last), given.fold(value)
    return (
        _is_superlative(name, wanted, folded, words=words, made=made)
        or _is_by_part(wanted, folded, words=words, made=made)
        or _is_pointed_at(wanted, last, made)
        or (bool(tool.reach.books) and _is_in_books(tool.reach, name, wanted, sums=words.sums, made=made))
    )


def is_within_books(tool: Tool, args: Mapping[str, Any], value: str, messages: Sequence[Message]) -> bool:
    """Is an amount not above one that passed before between the owner and this very recipient?"""
    if tool.reach is None or not tool.reach.books:
        return False
    who = {given.fold(str(args[name])) for name in tool.reach.to or () if args.get(name)}
    worth, known = given.weigh(value), list[float]()
    for call, result in _list_results(messages):
        if call.name in tool.reach.books:
            known += (amount for row in given.list_records([result.text]) if _names(row, who) for amount in _sums(row))
    return worth is not None and 0 <= worth <= max(known, default=-1.0)


def _names(row: Mapping[str, Any], who: set[str]) -> bool:
    """Is it about them: by account, or by a word of its title?"""
    return any(
        given.fold(str(one)) in who
        or (key.casefold() in given.NAME_KEYS and any(given.stands_in(w, given.fold(str(one))) for w in who))
        for key, one in given.list_fields(row)
    )


def _sums(row: Mapping[str, Any]) -> Iterator[float]:
    yield from (float(one) for key, one in row.items() if _is_kind(key, _PRICES) and isinstance(one, (int, float)))


def _list_results(messages: Sequence[Message]) -> list[tuple[ToolCall, ToolResult]]:
    return [(call, m) for call, m in pair_results(messages) if call is not None and not m.isError]


def _list_whole(made: Sequence[tuple[ToolCall, ToolResult]], words: given.OwnerWords) -> Iterator[list[Any]]:
    """The first list of each tool, if it was asked for without arguments or with the owner's own alone."""
    seen: set[str] = set()
    for call, result in made:
        if call.name in seen or not all(_is_owners_word(value, words) for value in call.arguments.values()):
            continue
        seen.add(call.name)
        found = given.decode_json(result.text)
        if isinstance(found, list) and 2 <= len(found) <= MAX_LISTED:
            yield found


def _is_owners_word(value: Any, words: given.OwnerWords) -> bool:
    """Nothing, or a word or day of the owner's. A number could cut the list, wherever the owner wrote it."""
    if value in (None, "", [], {}):
        return True
    return isinstance(value, str) and given.weigh(value) is None and given.is_given(value, words)


def _is_superlative(
    name: str, wanted: str, said: str, *, words: given.OwnerWords, made: Sequence[tuple[ToolCall, ToolResult]]
) -> bool:
    """The largest file: of a whole list, the one with the greatest size, if there is one such."""
    about = set(re.split(r"[^a-z]+", name.casefold()))
    for word, nouns in _SUPERLATIVE.findall(said):
        if about.isdisjoint({n for noun in nouns.split() for n in (noun, noun.rstrip("s"))}):
            continue
        kind, greatest = _MOST[word]
        for rows in _list_whole(made, words):
            best = _find_extremes(rows, kind, greatest)
            if len(best) == 1 and any(
                given.is_alike(name, key) and given.fold(str(one)) == wanted
                for key, one in given.list_fields(rows[best.pop()])
            ):
                return True
    return False


def _find_extremes(rows: list[Any], kind: frozenset[str], greatest: bool) -> set[int]:
    """Which rows are at the end, by any field of that kind; none if a row lacks one."""
    if not all(isinstance(row, dict) for row in rows):
        return set()
    found: set[int] = set()
    for key in [key for key in rows[0] if _is_kind(key, kind)]:
        values = [row.get(key) for row in rows]
        if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values) and not all(
            isinstance(v, str) and given.is_iso_day(v) for v in values
        ):
            return set()
        end = max(values) if greatest else min(values)
        found |= {at for at, value in enumerate(values) if value == end}
    return found


def _is_kind(key: str, kind: frozenset[str]) -> bool:
    return not kind.isdisjoint(re.split(r"[^a-z]+", key.casefold()))


def _is_by_part(
    wanted: str, said: str, *, words: given.OwnerWords, made: Sequence[tuple[ToolCall, ToolResult]]
) -> bool:
    """The channel starting with X: of a whole list, the only one."""
    for found in _PART.finditer(said):
        at_end = found[0].startswith("end")
        part = found[1]
        for rows in _list_whole(made, words):
            names = [given.fold(one) for row in rows for one in _list_names(row)]
            fits = [one for one in names if (one.endswith(part) if at_end else one.startswith(part))]
            if fits == [wanted]:
                return True
    return False


def _list_names(row: Any) -> Iterator[str]:
    if isinstance(row, str):
        yield row
    elif isinstance(row, dict):
        yield from (v for k, v in row.items() if k.casefold() in given.NAME_KEYS and isinstance(v, str))


def _is_pointed_at(wanted: str, said: str, made: Sequence[tuple[ToolCall, ToolResult]]) -> bool:
    """The e-mail that is on a page or in a file the owner named for it, if it is the only one there."""
    if not _EMAIL.fullmatch(wanted):
        return False
    places = [given.fold(one) for one in _SENTENCE.split(f"{said} ") if _EMAIL_WORDS.search(one.casefold())]
    held = [
        {one.rstrip(".-") for one in _EMAIL.findall(given.fold(result.text[: given.MAX_TEXT]))}
        for call, result in made
        for argument in call.arguments.values()
        if isinstance(argument, str) and len(argument) > 3
        and any(given.stands_in(given.fold(argument), place) and _is_place(argument) for place in places)
    ]  # fmt: skip
    return bool(held) and set().union(*held) == {wanted}


def _is_place(argument: str) -> bool:
    """A page's address or a file's name: what nobody but its author fills."""
    return "." in argument.strip(".") and " " not in argument.strip() and "@" not in argument


def _is_in_books(
    reach: ToolReach, name: str, wanted: str, *, sums: frozenset[float], made: Sequence[tuple[ToolCall, ToolResult]]
) -> bool:
    """Who sent "that 10.00": the other side of the one payment of a sum that the owner wrote."""
    others: set[str] = set()
    for call, result in made:
        for row in given.list_records([result.text]) if call.name in reach.books else ():
            if not sums.isdisjoint(_sums(row)):
                others |= {given.fold(str(v)) for k, v in given.list_fields(row) if given.is_alike(name, k)}
    return others - {"me"} == {wanted}
