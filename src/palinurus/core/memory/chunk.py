"""A text in pieces that are searched one by one: whole lines, about so many tokens, each beginning a little before
the last one's end. A piece's title is the headings it stands under and those in it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

UNSPACED_SCRIPT = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
)
CHARS = 4  # to a token; of scripts without spaces every character is one
_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*")
_FENCE = re.compile(r" {0,3}(```|~~~)")


class MemoryChunk(NamedTuple):
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
    """The pieces, in order; none for a blank text. `name` begins every title."""
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
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        mark = _FENCE.match(line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        heading = None if fence else _HEADING.fullmatch(line[:300])
        if heading:
            level = len(heading[1])
            heads = [head for head in heads if head[0] < level] + [(level, heading[2][:120])]
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
