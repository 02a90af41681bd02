"""Chunks of a patch and a text -> the new text. Pure; all places are found before anything changes.

A place is searched for from the last one on: exactly, then without the spaces at the end of lines, then without those
at both ends, then with typographic characters as plain ones. What is kept stays as it is in the file.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from palinurus.tools.patch.parse import PatchChunk, PatchError

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("‘’‚‛", "'"),
        **dict.fromkeys("“”„‟", '"'),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    }
)
_SHOWN = 12  # lines of an error


def _plain(line: str) -> str:
    return unicodedata.normalize("NFC", line.translate(_PLAIN)).strip()


_PASSES: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip, _plain)


class _Edit(NamedTuple):
    start: int
    end: int
    lines: list[str]


def apply_chunks(text: str, chunks: Sequence[PatchChunk], path: str) -> str:
    """The text with all chunks applied. Raises PatchError that names the path and what was not found."""
    ending = "\r\n" if "\r\n" in text[:10_000] else "\n"
    lines = text.split("\n")
    closed = lines[-1] == ""
    if closed:
        lines.pop()
    book = _Book(lines)
    edits, at = [], 0
    for chunk in chunks:
        edit = _placed(book, chunk, at, path, "\r" if ending == "\r\n" else "")
        edits.append(edit)
        at = edit.end
    for edit in reversed(edits):
        lines[edit.start : edit.end] = edit.lines
    return "\n".join(lines) + ("\n" if lines and (closed or text == "") else "")


class _Book:
    """The lines, and their looser forms, made once when needed."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._forms: dict[int, tuple[list[str], dict[str, list[int]]]] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, at: int) -> str:
        return self._lines[at]

    def find(self, wanted: Sequence[str], start: int, *, at_end: bool = False) -> int | None:
        """Where `wanted` stands at or after `start`."""
        last = len(self._lines) - len(wanted)
        if last < start:
            return None
        for number, form in enumerate(_PASSES):
            have, spots = self._formed(number, form)
            want = list(map(form, wanted))
            if at_end and have[last:] == want:
                return last
            known = spots.get(want[0], [])
            for at in known[bisect_left(known, start) : bisect_right(known, last)]:
                if have[at + len(want) - 1] == want[-1] and have[at : at + len(want)] == want:
                    return at
        return None

    def _formed(self, number: int, form: Callable[[str], str]) -> tuple[list[str], dict[str, list[int]]]:
        if number not in self._forms:
            lines, spots = list(map(form, self._lines)), dict[str, list[int]]()
            for at, line in enumerate(lines):
                spots.setdefault(line, []).append(at)
            self._forms[number] = lines, spots
        return self._forms[number]


def _placed(book: _Book, chunk: PatchChunk, start: int, path: str, carriage: str) -> _Edit:
    for header in chunk.headers:
        found = book.find((header,), start)
        if found is None:
            raise PatchError(f"{path}: the line after @@ was not found: {header[:200]!r}")
        start = found + 1
    old, kept = chunk.old, list(chunk.lines)
    if not old:
        at = len(book) if chunk.at_end or not chunk.headers else start
        return _Edit(at, at, [line.text + carriage for line in kept])
    at_ = book.find(old, start, at_end=chunk.at_end)
    if at_ is None and old[-1] == "" and kept[-1] == (" ", "") and len(old) > 1:
        old, kept = old[:-1], kept[:-1]  # a blank line at the end of a hunk is often only there for looks
        at_ = book.find(old, start, at_end=chunk.at_end)
    if at_ is None:
        shown = "\n".join(old[:_SHOWN]) + (f"\n… ({len(old)} lines)" if len(old) > _SHOWN else "")
        where = f" after line {start}" if start else ""
        raise PatchError(f"{path}: these lines were not found{where}:\n{shown}")
    made, at = [], at_
    for line in kept:
        if line.kind == "+":
            made.append(line.text + carriage)
            continue
        if line.kind == " ":
            made.append(book[at])
        at += 1
    return _Edit(at_, at, made)
