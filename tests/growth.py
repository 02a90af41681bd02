"""Texts that make a pattern work hard, made from the pattern itself; and how its work grows with them."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable, Iterator
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

SIZES = (8, 24, 100, 400, 1_600)  # characters
LEAST = 0.003  # seconds that the larger one must take before its growth is looked at
AGAIN = 4  # looks more: what is true is true each time, what a busy machine makes of it is not
ENDS = ("", "\x00", "\n!")


def measure(work: Callable[[str], object], text: str, tries: int = 3) -> float:
    """Seconds of processor time, the least of some tries. One that is quick need not be tried again."""
    least = float("inf")
    collects = gc.isenabled()
    gc.disable()  # it would look at what other tests have left, and sooner in the larger text
    try:
        for _ in range(tries):
            before = time.process_time()
            work(text)
            least = min(least, time.process_time() - before)
            if least < LEAST / 4:
                break
    finally:
        if collects:
            gc.enable()
    return least


def grows_too_fast(work: Callable[[str], object], make: Callable[[int], str]) -> bool:
    """Does twice the text take (nearly) four times as long? Looked at where it begins to take long at all."""
    for size in SIZES:
        large = measure(work, make(size * 2))
        if large >= LEAST:
            return large >= 3.2 * measure(work, make(size)) and all(
                measure(work, make(size * 2)) >= 3.2 * measure(work, make(size)) for _ in range(AGAIN)
            )
    return False


def list_hard_texts(pattern: str | bytes, flags: int) -> Iterator[Callable[[int], str]]:
    """For every part that repeats without end: it alone, with what stands before it, and both again and again."""
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    tree = _parser.parse(text, flags)
    seen = set[tuple[str, str]]()
    for before, inner in _repeats(list(tree), ""):
        for pump in _variants(inner):
            for head, piece in (("", pump), (before, pump), ("", before + pump), ("", before)):
                if piece and (head, piece) not in seen:
                    seen.add((head, piece))
                    for end in ENDS:
                        yield lambda size, h=head, p=piece, e=end: h + p * (size // len(p)) + e  # type: ignore[misc]


def _repeats(nodes: list[Any], before: str) -> Iterator[tuple[str, list[Any]]]:
    for op, value in nodes:
        if op in (c.MAX_REPEAT, c.MIN_REPEAT, getattr(c, "POSSESSIVE_REPEAT", None)):
            _, most, inner = value
            if most is c.MAXREPEAT or most > 1_000:
                yield before, list(inner)
            yield from _repeats(list(inner), before)
        elif op is c.SUBPATTERN:
            yield from _repeats(list(value[3]), before)
        elif op is c.BRANCH:
            for branch in value[1]:
                yield from _repeats(list(branch), before)
        elif op in (c.ASSERT, c.ASSERT_NOT):
            yield from _repeats(list(value[1]), before)
        elif op is getattr(c, "ATOMIC_GROUP", None):
            yield from _repeats(list(value), before)
        before += _sample([(op, value)])


def _variants(nodes: list[Any]) -> set[str]:
    """Some texts that it fits."""
    if len(nodes) == 1 and nodes[0][0] is c.BRANCH:
        return {_sample(list(branch)) for branch in nodes[0][1][1]}
    if len(nodes) == 1 and nodes[0][0] is c.SUBPATTERN:
        return _variants(list(nodes[0][1][3]))
    if len(nodes) == 1 and nodes[0][0] is c.IN:
        return set(_members(nodes[0][1])[:6])
    return {_sample(nodes)}


def _sample(nodes: list[Any]) -> str:
    made = ""
    for op, value in nodes:
        if op is c.LITERAL:
            made += chr(value)
        elif op is c.NOT_LITERAL:
            made += "b" if value == ord("a") else "a"
        elif op is c.ANY:
            made += "a"
        elif op is c.IN:
            made += (_members(value) or ["a"])[0]
        elif op is c.BRANCH:
            made += _sample(list(value[1][0]))
        elif op is c.SUBPATTERN:
            made += _sample(list(value[3]))
        elif op in (c.MAX_REPEAT, c.MIN_REPEAT, getattr(c, "POSSESSIVE_REPEAT", None)):
            made += _sample(list(value[2])) * min(max(value[0], 0), 200)
        elif op is getattr(c, "ATOMIC_GROUP", None):
            made += _sample(list(value))
    return made


_CLASSES = {
    c.CATEGORY_DIGIT: "0", c.CATEGORY_NOT_DIGIT: "a", c.CATEGORY_SPACE: " \n", c.CATEGORY_NOT_SPACE: "a",
    c.CATEGORY_WORD: "a0", c.CATEGORY_NOT_WORD: " -",
}  # fmt: skip


def _members(choices: list[Any]) -> list[str]:
    found: list[str] = []
    for op, value in choices:
        if op is c.LITERAL:
            found.append(chr(value))
        elif op is c.RANGE:
            found.append(chr(value[0]))
        elif op is c.CATEGORY:
            found += _CLASSES.get(value, "a")
    if choices and choices[0][0] is c.NEGATE:
        closed = re.compile("[" + "".join(map(re.escape, found)) + "]") if found else None
        return [one for one in "a0 -\n<@" if closed is None or not closed.match(one)]
    return found
