"""Texts in pieces that are searched one by one (whole lines, about so many tokens, each beginning a little before the
last one's end), and questions in words as the full-text index takes them. Nothing a person or a model types is syntax.

Scripts without spaces are indexed character by character (`space_characters`) and asked for in pairs.
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

import msgspec

from palinurus.core.text import normalize_breaks, trim_heading
from palinurus.patterns import compile_late

UNSPACED_SCRIPT = compile_late(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
)
CHARS = 4  # to a token; of scripts without spaces every character is one
MAX_TERMS = 12
_HEADING = compile_late(r" {0,3}(#{1,6})\s+(.*)")
_FENCE = compile_late(r" {0,3}(```|~~~)")
_WORD = compile_late(r'"([^"]{1,200})"|(\w+)')
_RUN = compile_late(f"({UNSPACED_SCRIPT.pattern}+)")
_COMMON = """
a about all an and any are as at be been but by can could did do does for from had has have he her his how i if in into
is it its me my of on or our she should so than that the their them then there these they this to us was we were what
when where which who whom why will with would you your der die das und ist
"""
_STOP = frozenset(_COMMON.split())


class MemoryChunk(msgspec.Struct, frozen=True):
    """Lines `start` to `end`, counted from 1."""

    start: int
    end: int
    title: str
    text: str


class _Piece(NamedTuple):
    line: int
    text: str
    size: int  # quarter tokens
    heads: tuple[str, ...]  # headings in force


def split_chunks(text: str, name: str, tokens: int = 400, overlap: int = 80) -> list[MemoryChunk]:
    """The pieces, in order; none for a blank text. A title is `name`, the headings it stands under and those in it."""
    room, shared = max(tokens, 1) * CHARS, max(overlap, 0) * CHARS
    made: list[MemoryChunk] = []
    held: list[_Piece] = []
    size = fresh = 0
    for piece in _pieces(text, room):
        if fresh and size + piece.size > room:
            _put(made, held, name)
            held = _tail(held, min(shared, room - piece.size))
            size, fresh = sum(p.size for p in held), 0
        held.append(piece)
        size += piece.size
        fresh += 1
    if fresh:
        _put(made, held, name)
    return made


def _put(made: list[MemoryChunk], held: list[_Piece], name: str) -> None:
    text = "\n".join(piece.text for piece in held)
    if text.strip():
        heads = dict.fromkeys(head for piece in held for head in piece.heads)
        made.append(MemoryChunk(held[0].line, held[-1].line, " · ".join((name, *heads)), text))


def _tail(held: list[_Piece], room: int) -> list[_Piece]:
    kept, at = 0, len(held)
    while at > 1 and kept + held[at - 1].size <= room:
        at -= 1
        kept += held[at].size
    return held[at:]


def _pieces(text: str, room: int) -> list[_Piece]:
    """Lines; those longer than a whole piece in parts."""
    made: list[_Piece] = []
    heads: list[tuple[int, str]] = []
    fence = ""
    for number, line in enumerate(normalize_breaks(text).split("\n"), 1):
        mark = _FENCE.match(line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        heading = None if fence else _HEADING.fullmatch(line[:300])
        if heading:
            level = len(heading[1])
            heads = [head for head in heads if head[0] < level] + [(level, trim_heading(heading[2])[:120])]
        names = tuple(head for _, head in heads)
        size = _size(line)
        if size <= room:
            made.append(_Piece(number, line, size, names))
            continue
        step = max(1, room // CHARS if UNSPACED_SCRIPT.search(line) else room)
        made += [_Piece(number, part, _size(part), names) for part in _parts(line, step)]
    return made


def _parts(line: str, step: int) -> list[str]:
    return [line[at : at + step] for at in range(0, len(line), step)]


def _size(line: str) -> int:
    dense = 0 if line.isascii() else len(UNSPACED_SCRIPT.findall(line))
    return len(line) + 1 + dense * (CHARS - 1)


class MemoryQuery(msgspec.Struct, frozen=True):
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
