"""The text of a patch -> what is to be done to which file. Pure.

*** Begin Patch
*** Add File: path          lines with +
*** Delete File: path
*** Update File: path       then perhaps *** Move to: path
@@ header                   lines with " ", "-", "+"; perhaps *** End of File
*** End Patch
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, DELETE, UPDATE = "*** Add File:", "*** Delete File:", "*** Update File:"
MOVE, EOF = "*** Move to:", "*** End of File"
_HEREDOC = re.compile(r"(?:cat\s+)?<<-?\s*(['\"]?)(\w+)\1\s*\n(.*)\n\2\s*", re.DOTALL)
_FENCE = re.compile(r"```\w*\n(.*)\n```\s*", re.DOTALL)

PatchLineKind: TypeAlias = Literal[" ", "-", "+"]


class PatchLine(NamedTuple):
    kind: PatchLineKind
    text: str


class PatchChunk(NamedTuple):
    """One place to change: search the `headers` one after another, then the kept and removed lines."""

    headers: tuple[str, ...]
    lines: tuple[PatchLine, ...]
    at_end: bool = False

    @property
    def old(self) -> tuple[str, ...]:
        return tuple(line.text for line in self.lines if line.kind != "+")


class AddFile(NamedTuple):
    path: str
    text: str


class DeleteFile(NamedTuple):
    path: str


class UpdateFile(NamedTuple):
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
        for mark, read in ((ADD, self._add), (DELETE, self._delete), (UPDATE, self._update)):
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

    def _delete(self, path: str) -> DeleteFile:
        return DeleteFile(path)

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
