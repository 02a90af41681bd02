"""Patches: the text of one -> what is to be done to which file (`parse_patch`), and a file's text with the chunks in
it (`apply_chunks`). Pure; all places are found before anything changes.

*** Begin Patch
*** Add File: path          lines with +
*** Delete File: path
*** Update File: path       then perhaps *** Move to: path
@@ header                   lines with " ", "-", "+"; perhaps *** End of File
*** End Patch

A place is searched for from the last one on: exactly, then without the spaces at the end of lines, then without those
at both ends, then with typographic characters as plain ones. What is kept stays as it is in the file.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from palinurus.patterns import compile_late

BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, DELETE, UPDATE = "*** Add File:", "*** Delete File:", "*** Update File:"
MOVE, EOF = "*** Move to:", "*** End of File"
_HEREDOC = compile_late(r"(?:cat\s+)?<<-?\s*(['\"]?)(\w+)\1[^\S\n]*\n(.*)\n\2\s*", re.DOTALL)
_FENCE = compile_late(r"```\w*\n(.*)\n```\s*", re.DOTALL)

PatchLineKind: TypeAlias = Literal[" ", "-", "+"]


class PatchLine(NamedTuple):
    kind: PatchLineKind
    text: str


class PatchChunk(msgspec.Struct, frozen=True):
    """One place to change: search the `headers` one after another, then the kept and removed lines."""

    headers: tuple[str, ...]
    lines: tuple[PatchLine, ...]
    at_end: bool = False

    @property
    def old(self) -> tuple[str, ...]:
        return tuple(line.text for line in self.lines if line.kind != "+")


class AddFile(msgspec.Struct, frozen=True):
    path: str
    text: str


class DeleteFile(msgspec.Struct, frozen=True):
    path: str


class UpdateFile(msgspec.Struct, frozen=True):
    path: str
    move: str  # "" = it stays where it is
    chunks: tuple[PatchChunk, ...]


FileChange: TypeAlias = AddFile | DeleteFile | UpdateFile


class PatchError(ValueError):
    """What is wrong, in words for the model."""


def parse_patch(text: str) -> tuple[FileChange, ...]:
    """The changes, in order. Raises PatchError."""
    lines = _lines(text)
    if not lines or lines[0].strip() != BEGIN:
        raise PatchError(f"the first line of the patch must be '{BEGIN}'")
    if lines[-1].strip() != END:
        raise PatchError(f"the last line of the patch must be '{END}'")
    reader = _Reader(lines[1:-1])
    changes = []
    while reader.more:
        changes.append(reader.change())
    if not changes:
        raise PatchError("the patch changes no file")
    return tuple(changes)


def _lines(text: str) -> list[str]:
    text = text.strip()
    for wrapping in (_FENCE, _HEREDOC):
        found = wrapping.fullmatch(text)
        if found:
            text = found[found.re.groups].strip()
    return [line.removesuffix("\r") for line in text.split("\n")]


def _after(lines: list[str]) -> list[str]:
    """For each line the next one that is not blank, "" if there is none."""
    found, last = [""] * len(lines), ""
    for at in range(len(lines) - 1, -1, -1):
        found[at] = last
        if lines[at].strip():
            last = lines[at]
    return found


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self._next = _after(lines)

    @property
    def more(self) -> bool:
        """Is there another change? Blank lines between changes do not count."""
        while self._at < len(self._lines) and not self._lines[self._at].strip():
            self._at += 1
        return self._at < len(self._lines)

    def change(self) -> FileChange:
        line = self._lines[self._at]
        for mark, read in ((ADD, self._add), (DELETE, DeleteFile), (UPDATE, self._update)):
            if line.strip().startswith(mark):
                path = line.strip()[len(mark) :].strip()
                if not path:
                    raise PatchError(f"{self._where()}: '{mark}' names no file")
                self._at += 1
                return read(path)
        raise PatchError(f"{self._where()}: expected '{ADD}', '{DELETE}' or '{UPDATE}', found {line[:80]!r}")

    def _add(self, path: str) -> AddFile:
        found = []
        while self._at < len(self._lines) and not self._marked():
            line = self._lines[self._at]
            if not line.startswith("+"):
                if line.strip():
                    raise PatchError(f"{self._where()}: every line of a new file must begin with '+'")
                if not self._goes_on("+"):
                    break
                line = "+"
            found.append(line[1:])
            self._at += 1
        return AddFile(path, "".join(f"{line}\n" for line in found))

    def _update(self, path: str) -> UpdateFile:
        move = ""
        if self._at < len(self._lines) and self._lines[self._at].strip().startswith(MOVE):
            move = self._lines[self._at].strip()[len(MOVE) :].strip()
            if not move:
                raise PatchError(f"{self._where()}: '{MOVE}' names no file")
            self._at += 1
        chunks: list[PatchChunk] = []
        while self.more and not self._marked():
            chunks.append(self._chunk(first=not chunks))
        if not chunks and not move:
            raise PatchError(f"the update of {path} holds no change")
        return UpdateFile(path, move, tuple(chunks))

    def _chunk(self, *, first: bool) -> PatchChunk:
        headers = []
        while self._at < len(self._lines) and self._header():
            header = self._lines[self._at][2:].strip()
            if header:
                headers.append(self._lines[self._at][2:].removeprefix(" "))
            self._at += 1
        if not headers and not first and not self._lines[self._at - 1].startswith("@@"):
            raise PatchError(f"{self._where()}: expected '@@', found {self._lines[self._at][:80]!r}")
        found: list[PatchLine] = []
        at_end = False
        while self._at < len(self._lines) and not self._header():
            line = self._lines[self._at]
            if line.strip() == EOF:
                at_end = True
                self._at += 1
                break
            if self._marked() or (not line.strip() and line == "" and not self._goes_on(" -+")):
                break
            found.append(self._line(line))
            self._at += 1
        if not found and not headers:
            raise PatchError(f"{self._where()}: a hunk holds no line")
        return PatchChunk(tuple(headers), tuple(found), at_end)

    def _line(self, line: str) -> PatchLine:
        if line == "":
            return PatchLine(" ", "")
        if line[0] == " " or line[0] == "-" or line[0] == "+":
            return PatchLine(line[0], line[1:])  # type: ignore[arg-type]
        raise PatchError(f"{self._where()}: a line of a hunk begins with ' ', '-' or '+', found {line[:80]!r}")

    def _goes_on(self, kinds: str) -> bool:
        """Does the hunk go on after these blank lines?"""
        line = self._next[self._at]
        return line[:1] in tuple(kinds) and not line.startswith("***")

    def _header(self) -> bool:
        return self._lines[self._at] == "@@" or self._lines[self._at].startswith("@@ ")

    def _marked(self) -> bool:
        """A line that begins another change. Indented ones too, but not the lines of a hunk."""
        line = self._lines[self._at]
        return line.startswith((ADD, DELETE, UPDATE, BEGIN, END))

    def _where(self) -> str:
        return f"line {self._at + 2} of the patch"


# What typographers and word processors put in place of plain characters.
LOOKALIKES = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    }
)
_SHOWN = 12  # lines of an error


def _plain(line: str) -> str:
    return unicodedata.normalize("NFC", line.translate(LOOKALIKES)).strip()


_PASSES: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip, _plain)


class _Edit(msgspec.Struct, frozen=True):
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
    file = _Lines(lines)
    edits, at = [], 0
    for chunk in chunks:
        edit = _placed(file, chunk, at, path, carriage="\r" if ending == "\r\n" else "")
        edits.append(edit)
        at = edit.end
    for edit in reversed(edits):
        lines[edit.start : edit.end] = edit.lines
    return "\n".join(lines) + ("\n" if lines and (closed or text == "") else "")


class _Lines:
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


def _placed(file: _Lines, chunk: PatchChunk, start: int, path: str, carriage: str) -> _Edit:
    for header in chunk.headers:
        found = file.find((header,), start)
        if found is None:
            raise PatchError(f"{path}: the line after @@ was not found: {header[:200]!r}")
        start = found + 1
    old, kept = chunk.old, list(chunk.lines)
    if not old:
        at = len(file) if chunk.at_end or not chunk.headers else start
        return _Edit(at, at, [line.text + carriage for line in kept])
    at_ = file.find(old, start, at_end=chunk.at_end)
    if at_ is None and old[-1] == "" and kept[-1] == (" ", "") and len(old) > 1:
        old, kept = old[:-1], kept[:-1]  # a blank line at the end of a hunk is often only there for looks
        at_ = file.find(old, start, at_end=chunk.at_end)
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
            made.append(file[at])
        at += 1
    return _Edit(at_, at, made)
