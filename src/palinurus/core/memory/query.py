"""A question in words as the full-text index takes it. Nothing a person or a model types is syntax there.

Scripts without spaces are indexed character by character (`spaced`) and asked for in pairs.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from palinurus.core.memory.chunk import UNSPACED_SCRIPT

MAX_TERMS = 12
_WORD = re.compile(r'"([^"]{1,200})"|(\w+)')
_RUN = re.compile(f"({UNSPACED_SCRIPT.pattern}+)")
_COMMON = """
a about all an and any are as at be been but by can could did do does for from had has have he her his how i if in into
is it its me my of on or our she should so than that the their them then there these they this to us was we were what
when where which who whom why will with would you your der die das und ist
"""
_STOP = frozenset(_COMMON.split())


class MemoryQuery(NamedTuple):
    """`terms` as expressions of the index, `words` as they are looked for in plain text."""

    terms: tuple[str, ...]
    words: tuple[str, ...]

    def every(self) -> str:
        return " AND ".join(self.terms)


def parse_query(text: str) -> MemoryQuery:
    """At most TERMS terms; words that are everywhere count only where there are no others. "Quoted words" stay
    together."""
    clean = unicodedata.normalize("NFC", text[:4000]).replace("\0", " ")
    terms: dict[str, str] = {}
    common: dict[str, str] = {}
    for match in _WORD.finditer(clean):
        for term, word in _terms(match[1] or match[2], quoted=bool(match[1])):
            (common if word.lower() in _STOP else terms).setdefault(term, word)
    chosen = list((terms or common).items())[:MAX_TERMS]
    return MemoryQuery(tuple(term for term, _ in chosen), tuple(word for _, word in chosen))


def space_characters(text: str) -> str:
    """What is indexed for `text`."""
    return text if text.isascii() else UNSPACED_SCRIPT.sub(lambda m: f" {m[0]} ", text)


def _terms(word: str, *, quoted: bool) -> list[tuple[str, str]]:
    if quoted:
        return [(f'"{space_characters(word)}"', word)] if any(c.isalnum() for c in word) else []
    made: list[tuple[str, str]] = []
    for part in _RUN.split(word[:64]):
        if not part.strip("_"):
            continue
        if not UNSPACED_SCRIPT.match(part):
            low = part.lower()
            made.append((f'"{low}"' + ("*" if len(low) >= 4 else ""), part))
            continue
        pairs = [part[at : at + 2] for at in range(len(part) - 1)] or [part]
        made += [(f'"{" ".join(pair)}"', pair) for pair in pairs]
    return made
