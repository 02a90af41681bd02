"""The header of a SKILL.md, and a whole file of its kind: a strict little part of YAML. Pure; never raises, hostile
text included.

Known: `key: value`, nested maps and lists by indentation, quoted texts, {…} and […] (JSON), | and > texts, comments.
Not known, and said so: anchors, tags, several documents. Numbers of a header stay text.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from palinurus.core.skills import flow
from palinurus.core.skills.flow import FrontMatterFault
from palinurus.core.text import normalize_breaks
from palinurus.patterns import compile_late

LIMIT = 65_536  # characters of a header
DEPTH = 16  # blocks in blocks
_FENCE = "---"
_SCALAR = compile_late(r"([|>])([+-]?)([1-9]?)([+-]?)\s*(?:#.*)?")
_COMMENT = compile_late(r"(?:^|\s)#.*")
_RESERVED = "&*!%@`"


class FrontMatter(msgspec.Struct, frozen=True):
    """What stands in the header, and where the body begins (an index into the normalised text)."""

    fields: dict[str, Any]
    body: str


class BadFrontMatter(msgspec.Struct, frozen=True):
    """Why there is no header. `line` counts from 1 in the file."""

    line: int
    message: str


class YamlFile(msgspec.Struct, frozen=True):
    """What a file says, and where: the line of every key and item by its path (`$.turns[0].say`)."""

    fields: dict[str, Any]
    places: dict[str, int]


class _Line(msgspec.Struct, frozen=True):
    indent: int
    text: str  # without the indentation and without white space at the end
    at: int  # where `text` starts in the whole


def parse_front_matter(text: str) -> FrontMatter | BadFrontMatter:
    """The header of a file."""
    lines = normalize_breaks(text.removeprefix("\ufeff")).split("\n")
    if lines[0].rstrip() != _FENCE:
        return BadFrontMatter(1, "does not begin with a header (a line of ---)")
    end = next((i for i, line in enumerate(lines[1:], 1) if line.rstrip() in (_FENCE, "...")), 0)
    if not end:
        return BadFrontMatter(1, "the header is not closed (a second line of ---)")
    head = "\n".join(lines[1:end])
    if len(head) > LIMIT:
        return BadFrontMatter(1, f"the header has more than {LIMIT} characters")
    try:
        fields = _Block(head).whole()
    except FrontMatterFault as exc:
        return BadFrontMatter(head.count("\n", 0, exc.at) + 2, exc.message)
    return FrontMatter(fields, "\n".join(lines[end + 1 :]))


def parse_yaml(text: str) -> YamlFile | BadFrontMatter:
    """A whole file. Numbers are numbers."""
    plain = normalize_breaks(text.removeprefix("\ufeff"))
    if len(plain) > LIMIT:
        return BadFrontMatter(1, f"more than {LIMIT} characters")
    block = _Block(plain, flow.parse_typed_word)
    try:
        return YamlFile(block.whole(), block.places)
    except FrontMatterFault as exc:
        return BadFrontMatter(plain.count("\n", 0, exc.at) + 1, exc.message)


class _Block:
    """One reading of a header. `_now` is the line that comes next, `_path` what is being read."""

    def __init__(self, text: str, word: flow.ReadWord = flow.parse_word) -> None:
        self._text, self._word = text, word
        self._path = "$"
        self.places: dict[str, int] = {}
        self._lines: list[_Line] = []
        self._now = 0
        at = 0
        for raw in text.split("\n"):
            bare = raw.strip()
            indent = len(raw) - len(raw.lstrip())
            self._lines.append(_Line(indent, bare, at + (indent if bare else 0)))
            at += len(raw) + 1

    def whole(self) -> dict[str, Any]:
        """All of it. Raises FrontMatterFault."""
        line = self._peek()
        if line is None:
            return {}
        made = self._node(line.indent, 0)
        left = self._peek()
        if left is not None:
            raise FrontMatterFault(left.at, "is indented less than what stands before it")
        if not isinstance(made, dict):
            raise FrontMatterFault(line.at, "the header is not a list of `key: value` lines")
        return made

    def _peek(self) -> _Line | None:
        """The next line that says something."""
        while self._now < len(self._lines):
            line = self._lines[self._now]
            if line.text and not line.text.startswith("#"):
                return line
            self._now += 1
        return None

    def _below(self, step: str, line: _Line, at: int, indent: int, depth: int) -> Any:
        """The value of a key or an item."""
        outer, self._path = self._path, self._path + step
        self.places[self._path] = self._now + 1
        try:
            return self._value(line, at, indent, depth)
        finally:
            self._path = outer

    def _node(self, indent: int, depth: int) -> Any:
        line = self._peek()
        assert line is not None
        if depth > DEPTH:
            raise FrontMatterFault(line.at, f"more than {DEPTH} levels")
        if line.text == "-" or line.text.startswith("- "):
            return self._list(indent, depth)
        if line.text[0] not in "{[" and _key(self._text, line) is not None:
            return self._map(indent, depth)
        if line.text[0] in "{['\"":
            return self._inline(line.at)
        return self._scalar(line.text, line.at, indent - 1)

    def _map(self, indent: int, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        while (line := self._peek()) is not None and line.indent == indent:
            found = _key(self._text, line)
            if found is None:
                raise FrontMatterFault(line.at, f"expected `key: value`, found {line.text[:30]!r}")
            key, rest = found
            if key in made and self._word is flow.parse_typed_word:
                raise FrontMatterFault(line.at, f"{key} stands here twice")
            made[key] = self._below(f".{key}", line, rest, indent, depth)
        if line is not None and line.indent > indent:
            raise FrontMatterFault(line.at, "is indented more than what stands before it")
        return made

    def _list(self, indent: int, depth: int) -> list[Any]:
        made: list[Any] = []
        while (line := self._peek()) is not None and line.indent == indent:
            if line.text != "-" and not line.text.startswith("- "):
                break
            inner = line.text[1:].lstrip()
            at = line.at + len(line.text) - len(inner)
            if inner and inner[0] not in "{[|>#" and _key(self._text, _Line(0, inner, at)) is not None:
                # `- key: value`: a map whose first line stands behind the dash
                self._lines[self._now] = _Line(indent + (at - line.at), inner, at)
                outer, self._path = self._path, f"{self._path}[{len(made)}]"
                self.places[self._path] = self._now + 1
                made.append(self._map(indent + (at - line.at), depth + 1))
                self._path = outer
            else:
                made.append(self._below(f"[{len(made)}]", line, at, indent, depth))
        return made

    def _value(self, line: _Line, at: int, indent: int, depth: int) -> Any:
        """What stands behind `key:` or `-`, at `at` or on the lines below."""
        rest = self._text[at : line.at + len(line.text)].strip()
        while self._text[at : at + 1] in (" ", "\t"):
            at += 1
        if _COMMENT.match(rest) or not rest:
            self._now += 1
            below = self._peek()
            dashes = below is not None and below.indent == indent and below.text.startswith("-") and line.text[0] != "-"
            if below is None or (below.indent <= indent and not dashes):
                return None
            return self._node(below.indent, depth + 1)
        if rest[0] in "{['\"":
            return self._inline(at)
        if scalar := _SCALAR.fullmatch(rest):
            return self._text_block(scalar, indent)
        return self._scalar(rest, at, indent)

    def _inline(self, at: int) -> Any:
        """Brackets or quotes, over as many lines as they take."""
        read = flow.parse_value(self._text, at, word=self._word)
        end = self._text.find("\n", read.end)
        end = len(self._text) if end < 0 else end
        tail = self._text[read.end : end]
        if tail.strip() and not (tail[0].isspace() and tail.lstrip().startswith("#")):
            raise FrontMatterFault(read.end, f"unexpected after the value: {tail.strip()[:30]!r}")
        self._now = self._text.count("\n", 0, end) + 1
        return read.value

    def _scalar(self, text: str, at: int, indent: int) -> Any:
        """Plain words; deeper lines below belong to them."""
        if text[0] in _RESERVED:
            raise FrontMatterFault(at, f"a plain text cannot begin with {text[0]}: put it in quotes")
        words = [_COMMENT.sub("", text).strip()]
        self._now += 1
        while (line := self._peek()) is not None and line.indent > indent:
            words.append(_COMMENT.sub("", line.text).strip())
            self._now += 1
        return self._word(" ".join(word for word in words if word))

    def _text_block(self, scalar: re.Match[str], indent: int) -> str:
        """The lines below, as they are (|) or folded (>)."""
        style, keep = scalar[1], scalar[2] or scalar[4]
        self._now += 1
        taken: list[tuple[int, str]] = []
        while self._now < len(self._lines):
            line = self._lines[self._now]
            if line.text and line.indent <= indent:
                break
            taken.append((line.indent, line.text))
            self._now += 1
        floor = min((width for width, text in taken if text), default=0)
        shown = [" " * max(0, width - floor) + text if text else "" for width, text in taken]
        while shown and not shown[-1]:
            shown.pop()
        made = "\n".join(shown) if style == "|" else _folded(shown)
        return made if keep == "-" or not made else made + "\n"


def _folded(lines: list[str]) -> str:
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if line:
            paragraphs[-1].append(line.strip())
        else:
            paragraphs.append([])
    return "\n".join(" ".join(words) for words in paragraphs)


def _key(text: str, line: _Line) -> tuple[str, int] | None:
    """The key a line begins with, and where its value may start; None if it has none."""
    if line.text[0] in "'\"":
        try:
            read = flow.parse_quoted(text, line.at)
        except FrontMatterFault:
            return None
        after = read.end
        while text[after : after + 1] in (" ", "\t"):
            after += 1
        ends = text[after : after + 1] == ":" and text[after + 1 : after + 2] in ("", " ", "\t", "\n")
        return (read.value, after + 1) if ends else None
    end = line.text.find(":")
    while end > 0:
        if line.text[end + 1 : end + 2] in ("", " ", "\t"):
            return line.text[:end].rstrip(), line.at + end + 1
        end = line.text.find(":", end + 1)
    return None
