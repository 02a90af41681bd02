"""The inside of a paragraph: Markdown's marks, code, links -> runs. Linear, whatever the input; a mark without a
partner is text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NamedTuple

import msgspec

from palinurus.core.format.tree import NO_MARKS, TextMark, TextRun
from palinurus.patterns import compile_late

_TICKS = compile_late(r"`+")
_URL = compile_late(r"https?://[^\s<>\"`|]{1,2000}", re.IGNORECASE)
_LINK = compile_late(
    r"!?\[((?:[^\[\]\\\n]|\\.|\[[^\[\]\n]{0,200}\]){0,1000})\]"
    r"\([ \t]{0,4}<?([^\s()<>]{1,2000}(?:\([^\s()<>]{0,500}\)[^\s()<>]{0,500}){0,3})>?"
    r"(?:[ \t]{1,4}(?:\"[^\"\n]{0,300}\"|'[^'\n]{0,300}'))?[ \t]{0,4}\)"
)
_AUTO = compile_late(r"<((?:https?://|mailto:)[^\s<>]{1,2000})>", re.IGNORECASE)
_SAFE = compile_late(r"(?:https?://|mailto:|tel:)[^\s]", re.IGNORECASE)
_STOP = compile_late(r"[\\`*_~|\[!<]|h(?=ttps?://)", re.IGNORECASE)
_ESCAPABLE = frozenset("\\`*_{}[]()#+-.!|>~<\"'&$%,/:;=?@^")
_TRAIL = ".,;:!?'\"*_~"
_DEEP = 50  # marks that may wait for their partner at once
_MARKS: dict[tuple[str, int], TextMark] = {
    ("*", 1): "italic",
    ("*", 2): "bold",
    ("_", 1): "italic",
    ("_", 2): "bold",
    ("~", 2): "strike",
    ("|", 2): "spoiler",
}


class _Waiting(msgspec.Struct):
    """An opening run of marks; `count` of them have no partner yet. It stands at `at` of the pieces."""

    char: str
    count: int
    at: int


class _Piece(NamedTuple):
    run: TextRun
    waiting: _Waiting | None = None


class _Reader:
    def __init__(self, text: str, *, links: bool) -> None:
        self._text = text
        self._links = links
        self._ticks: dict[int, list[int]] = {}
        for found in _TICKS.finditer(text):
            self._ticks.setdefault(len(found.group()), []).append(found.start())
        self._pieces: list[_Piece] = []
        self._spans: list[tuple[int, int, TextMark]] = []  # pieces from..to carry the mark
        self._open: list[_Waiting] = []

    def read(self) -> tuple[TextRun, ...]:
        text, at = self._text, 0
        while at < len(text):
            found = _STOP.search(text, at)
            here = found.start() if found else len(text)
            self._add(text[at:here])
            at = self._special(here) if here < len(text) else here
        return self._joined()

    def _add(self, text: str, *, code: bool = False, url: str = "") -> None:
        if text:
            self._pieces.append(_Piece(TextRun(text, NO_MARKS, code, url)))

    def _special(self, at: int) -> int:
        """Read what stands at `at`; returns where to go on."""
        text, char = self._text, self._text[at]
        if char == "\\":
            if text[at + 1 : at + 2] in _ESCAPABLE and at + 1 < len(text):
                self._add(text[at + 1])
                return at + 2
        elif char == "`":
            return self._code(at)
        elif char in "[!<hH":
            return self._link(at)
        else:
            return self._mark(at)
        self._add(char)
        return at + 1

    def _code(self, at: int) -> int:
        found = _TICKS.match(self._text, at)
        assert found is not None
        size, end = found.end() - at, found.end()
        places = self._ticks.get(size, [])  # a backslash may have eaten the first of a run
        nearest = bisect_left(places, end)
        if nearest == len(places):
            self._add(found.group())
            return end
        stop = places[nearest]
        inside = self._text[end:stop]
        if not inside.strip():  # nobody would see it: then the ticks were meant
            self._add(self._text[at:stop] + found.group())
            return stop + size
        if inside.startswith(" ") and inside.endswith(" ") and inside.strip():
            inside = inside[1:-1]
        self._add(inside, code=True)
        return stop + size

    def _link(self, at: int) -> int:
        text = self._text
        if (text[at] in "[!") and self._links and (found := _LINK.match(text, at)):
            self._labelled(found[1], found[2])
            return found.end()
        if text[at] == "<" and (found := _AUTO.match(text, at)):
            self._add(found[1], url=found[1] if self._links else "")
            return found.end()
        if text[at] in "hH" and (found := _URL.match(text, at)):
            address = found.group().rstrip(_TRAIL)
            while address.endswith(")") and address.count(")") > address.count("("):
                address = address[:-1].rstrip(_TRAIL)
            self._add(address, url=address if self._links else "")
            return at + len(address)
        self._add(text[at])
        return at + 1

    def _labelled(self, label: str, url: str) -> None:
        if not label.strip():
            label = url
        if not _SAFE.match(url):
            self._add(label if label == url else f"{label} ({url})")
            return
        for run in parse_runs(label, links=False):
            marked = TextRun(
                run.text, NO_MARKS, False, url
            )  # what leads somewhere is not code as well: no platform nests them
            self._pieces.append(_Piece(marked))
            self._spans += [(len(self._pieces) - 1, len(self._pieces), mark) for mark in run.marks]

    def _mark(self, at: int) -> int:
        text, char = self._text, self._text[at]
        end = at
        while end < len(text) and text[end] == char:
            end += 1
        count = end - at
        before, after = text[at - 1 : at] if at else "", text[end : end + 1]
        opens, closes = _flank(char, before, after)
        if (char in "~|" and count != 2) or count > 3:
            self._add(text[at:end])
            return end
        count = self._closed(char, count) if closes else count
        if count and opens:
            waiting = _Waiting(char, count, len(self._pieces))
            self._pieces.append(_Piece(TextRun(char * count), waiting))
            self._open.append(waiting)
            del self._open[:-_DEEP]
        elif count:
            self._add(char * count)
        return end

    def _closed(self, char: str, count: int) -> int:
        """Find partners for `count` closing marks; how many are left."""
        for place in range(len(self._open) - 1, -1, -1):
            waiting = self._open[place]
            if waiting.char != char or (char in "~|" and waiting.count != count):
                continue
            while count and waiting.count:
                size = 2 if min(count, waiting.count) >= 2 else 1
                self._spans.append((waiting.at + 1, len(self._pieces), _MARKS[char, size]))
                count -= size
                waiting.count -= size
            del self._open[place + (1 if waiting.count else 0) :]
            if not count:
                break
        return count

    def _joined(self) -> tuple[TextRun, ...]:
        """The pieces with their marks; neighbours that look the same are one run."""
        starts: dict[int, list[TextMark]] = {}
        ends: dict[int, list[TextMark]] = {}
        for low, high, mark in self._spans:
            starts.setdefault(low, []).append(mark)
            ends.setdefault(high, []).append(mark)
        depth: dict[TextMark, int] = {}
        made: list[TextRun] = []
        for at, (run, waiting) in enumerate(self._pieces):
            for mark in ends.get(at, ()):
                depth[mark] -= 1
            for mark in starts.get(at, ()):
                depth[mark] = depth.get(mark, 0) + 1
            text = run.text if waiting is None else waiting.char * waiting.count
            marks = NO_MARKS if run.code else frozenset(mark for mark, deep in depth.items() if deep > 0)
            if not text:
                continue
            last = made[-1] if made else None
            if last is not None and (last.marks, last.code, last.url) == (marks, run.code, run.url) and not run.code:
                made[-1] = TextRun(last.text + text, marks, False, run.url)
            else:
                made.append(TextRun(text, marks, run.code, run.url))
        return tuple(made)


def _flank(char: str, before: str, after: str) -> tuple[bool, bool]:
    """(may open, may close): not beside a blank; underscores not inside words."""
    opens = bool(after) and not after.isspace()
    closes = bool(before) and not before.isspace()
    if char == "_":
        opens = opens and not before.isalnum()
        closes = closes and not after.isalnum()
    return opens, closes


def parse_runs(text: str, *, links: bool = True) -> tuple[TextRun, ...]:
    """The runs of one paragraph's text. With `links` off addresses are text."""
    return _Reader(text, links=links).read()
