"""The inline half of the header's language: quoted texts, {…} and […], over as many lines as they take. Pure.

JSON is a part of it; commas before a closing bracket, plain words and # comments are taken too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

DEPTH = 20  # brackets in brackets
_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "true": True, "false": False, "True": True, "False": False,
}  # fmt: skip


ReadWord: TypeAlias = Callable[[str], Any]


class FrontMatterFault(Exception):
    """The text cannot be read from `at` on. Caught in `frontmatter`; nobody else sees it."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at = at
        self.message = message


class FlowValue(NamedTuple):
    """A value, and the position after it."""

    value: Any
    end: int


def parse_word(word: str) -> Any:
    """A plain word as a value: true, false and nothing are what they say, all else is text."""
    return _WORDS.get(word, word)


def parse_typed_word(word: str) -> Any:
    """The same, and numbers are numbers."""
    if word[:1] not in "+-.0123456789":
        return parse_word(word)
    for kind in (int, float):
        try:
            return kind(word) if "_" not in word else word
        except ValueError:
            continue
    return parse_word(word)


def parse_value(text: str, at: int, depth: int = 0, *, word: ReadWord = parse_word) -> FlowValue:
    """The value that starts at `at` (white space before it is skipped); `word` reads plain ones. Raises
    FrontMatterFault."""
    at = skip_blanks(text, at)
    head = text[at : at + 1]
    if depth > DEPTH:
        raise FrontMatterFault(at, f"more than {DEPTH} brackets inside each other")
    if head == "{":
        return _map(text, at, depth, word)
    if head == "[":
        return _list(text, at, depth, word)
    if head in ('"', "'") and head:
        return parse_quoted(text, at)
    return _plain(text, at, word)


def parse_quoted(text: str, at: int) -> FlowValue:
    """The quoted text that starts at `at`. A line end inside is one space. Raises FrontMatterFault."""
    mark = text[at]
    end = at + 1
    while end < len(text):
        if mark == '"' and text[end] == "\\":
            end += 2
        elif text[end] != mark:
            end += 1
        elif mark == "'" and text[end + 1 : end + 2] == "'":
            end += 2
        else:
            return FlowValue(_unquoted(text, at, end + 1), end + 1)
    raise FrontMatterFault(at, "the quotation is not closed")


def skip_blanks(text: str, at: int) -> int:
    """The position of the next thing that is neither white space nor comment."""
    while at < len(text):
        if text[at] == "#" and (at == 0 or text[at - 1].isspace()):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text[at].isspace():
            at += 1
        else:
            break
    return at


def _unquoted(text: str, start: int, end: int) -> str:
    raw = text[start:end]
    if "\n" in raw:
        raw = " ".join(line.strip() for line in raw.split("\n"))
    if raw[0] == "'":
        return raw[1:-1].replace("''", "'")
    try:
        made = json.loads(raw, strict=False)
    except ValueError:
        raise FrontMatterFault(start, "a \\ in this quotation stands before something it does not go with") from None
    # Half of a surrogate pair cannot be written to a file or sent to anybody.
    return str(made).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _map(text: str, at: int, depth: int, word: ReadWord) -> FlowValue:
    made: dict[str, Any] = {}
    opened, at = at, skip_blanks(text, at + 1)
    while text[at : at + 1] != "}":
        key = parse_value(text, at, depth + 1)
        at = skip_blanks(text, key.end)
        item: Any = None
        if text[at : at + 1] == ":":
            at = skip_blanks(text, at + 1)
            if text[at : at + 1] not in (",", "}"):
                item, at = parse_value(text, at, depth + 1, word=word)
                at = skip_blanks(text, at)
        made[key.value if isinstance(key.value, str) else json.dumps(key.value)] = item
        at = _next(text, at, "}", opened)
    return FlowValue(made, at + 1)


def _list(text: str, at: int, depth: int, word: ReadWord) -> FlowValue:
    made: list[Any] = []
    opened, at = at, skip_blanks(text, at + 1)
    while text[at : at + 1] != "]":
        item = parse_value(text, at, depth + 1, word=word)
        made.append(item.value)
        at = _next(text, skip_blanks(text, item.end), "]", opened)
    return FlowValue(made, at + 1)


def _next(text: str, at: int, close: str, opened: int) -> int:
    """Past the comma, to the next item or the closing bracket. Raises FrontMatterFault."""
    if at >= len(text):
        raise FrontMatterFault(opened, f"the {text[opened]} is not closed")
    if text[at] == ",":
        return skip_blanks(text, at + 1)
    if text[at] != close:
        raise FrontMatterFault(at, f"expected , or {close} before {text[at : at + 12]!r}")
    return at


def _plain(text: str, at: int, word: ReadWord) -> FlowValue:
    end = at
    while end < len(text) and text[end] not in ",[]{}\n":
        if text[end] == ":" and (end + 1 == len(text) or text[end + 1] in " \t\n,]}"):
            break
        if text[end] == "#" and text[end - 1 : end].isspace():
            break
        end += 1
    plain = text[at:end].strip()
    if not plain:
        found = text[at : at + 1]
        raise FrontMatterFault(
            min(at, len(text)), f"expected a value, found {found!r}" if found else "a value is missing"
        )
    return FlowValue(word(plain), end)
