"""Where each key of a JSON5 text stands: a scanner that knows positions and lines, not values.

Used when a problem is reported, a key explained or a value edited in place; never when a good config is loaded.
It never raises: what it cannot read becomes `Scan.fault`. Messages quote no part of a value, which may be a secret.
"""

from __future__ import annotations

import re
from bisect import bisect_right

import msgspec

from palinurus.config import relaxed
from palinurus.config.keypath import Path
from palinurus.config.relaxed import MAX_DEPTH
from palinurus.patterns import compile_late

# No possessive quantifiers, which are broken before Python 3.11.5: each step begins with another character than the one
# before it may take, so what does not match is given up in linear time all the same.
_BLANK = compile_late(r"(?:[\s\ufeff]|//[^\n\r\u2028\u2029]*|/\*[^*]*\*+(?:[^*/][^*]*\*+)*/)*")
_STRING = compile_late(
    r'"[^"\\\n\r]*(?:\\(?:\r\n|[\s\S])[^"\\\n\r]*)*"|' r"'[^'\\\n\r]*(?:\\(?:\r\n|[\s\S])[^'\\\n\r]*)*'"
)
_NAME = compile_late(r"(?:[\w$\u200c\u200d]|\\u[0-9a-fA-F]{4})+")
# Numbers are taken as generously as the parser takes them (`1_000`, `.e5`): whoever is right, lines must be found.
_SCALAR = compile_late(
    r"(?:true|false|null|[+-]*(?:Infinity|NaN|[.0-9_][0-9A-Za-z_.]*(?:(?<=[eE])[+-][0-9_]+)?))(?![\w$.+-])", re.ASCII
)
_ESCAPE = compile_late(r"\\u([0-9a-fA-F]{4})")
_NEWLINE = compile_late(r"\r\n?|\n")


class JsonNode(msgspec.Struct, frozen=True):
    """One value. Offsets are in characters; a list item has no key, `key` is then its start."""

    line: int
    key: int
    start: int
    end: int
    kind: str  # object | array | scalar
    quoted: bool = True  # is its key in quotes
    comma: int = -1  # offset of the comma behind it


class JsonFault(msgspec.Struct, frozen=True):
    """Where the text stops being JSON5."""

    line: int
    path: Path
    message: str
    hint: str = ""


class JsonScan(msgspec.Struct, frozen=True):
    nodes: dict[Path, JsonNode]  # the last one wins where a key stands twice
    fault: JsonFault | None
    doubles: tuple[tuple[Path, int], ...]  # keys that stand twice, and the line of the second
    comments: bool

    def line(self, path: Path) -> int:
        """The line of `path`, or of the nearest thing around it; 0 if there is nothing at all."""
        for size in range(len(path), -1, -1):
            node = self.nodes.get(path[:size])
            if node is not None:
                return node.line
        return 0


class _Stop(Exception):
    def __init__(self, fault: JsonFault) -> None:
        self.fault = fault


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.nodes: dict[Path, JsonNode] = {}
        self.doubles: list[tuple[Path, int]] = []
        self.comments = False
        self.starts = [m.end() for m in _NEWLINE.finditer(text)]

    def line(self, at: int) -> int:
        return bisect_right(self.starts, at) + 1

    def stop(self, at: int, path: Path, message: str, hint: str = "") -> _Stop:
        return _Stop(JsonFault(self.line(at), path, message, hint))

    def blank(self, path: Path) -> str:
        """Skip blanks and comments; the next character, "" at the end."""
        start = self.at
        found = _BLANK.match(self.text, start)
        self.at = found.end() if found else start
        if "/" in self.text[start : self.at]:
            self.comments = True
        if self.text.startswith("/*", self.at):
            raise self.stop(self.at, path, "a comment is never closed", "end it with */")
        return self.text[self.at : self.at + 1]

    def document(self) -> None:
        if self.blank(()) == "":
            raise self.stop(len(self.text), (), "the file is empty", "write {} for an empty config")
        self.value((), self.at, True)
        if self.blank(()) != "":
            raise self.stop(
                self.at, (), "something follows after the end of the config", "remove it, or a bracket before it"
            )

    def value(self, path: Path, key: int, quoted: bool) -> None:
        if len(path) > MAX_DEPTH:
            raise self.stop(self.at, path[:4], f"nested more than {MAX_DEPTH} levels deep")
        start = self.at
        first = self.text[start : start + 1]
        if first in ("{", "["):
            # Entered before its members, so that a fault inside can still name the line around it.
            kind = "object" if first == "{" else "array"
            self.nodes[path] = JsonNode(self.line(key), key, start, start, kind=kind, quoted=quoted)
            self.members(path, kind, start)
        elif first in ('"', "'") and first:
            self.string(path)
            kind = "scalar"
        else:
            kind = "scalar"
            found = _SCALAR.match(self.text, start)
            if found is None:
                raise self.stop(start, path, "a value is missing or cannot be read", "text needs quotes around it")
            self.at = found.end()
        self.nodes[path] = JsonNode(self.line(key), key, start, self.at, kind=kind, quoted=quoted)

    def string(self, path: Path) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            raise self.stop(self.at, path, "a text is never closed", "its closing quote must stand on the same line")
        self.at = found.end()
        return found[0]

    def members(self, path: Path, kind: str, opened: int) -> None:
        closing = "}" if kind == "object" else "]"
        self.at += 1
        count = 0
        while True:
            char = self.blank(path)
            if char == closing:
                self.at += 1
                return
            if char == "":
                raise self.stop(opened, path, f"this {kind} is never closed", f"a {closing} is missing")
            child = self.member(path, kind, count)
            count += 1
            end = self.at
            char = self.blank(child)
            if char == ",":
                self.nodes[child] = msgspec.structs.replace(self.nodes[child], comma=self.at)
                self.at += 1
            elif char == "":
                raise self.stop(opened, path, f"this {kind} is never closed", f"a {closing} is missing")
            elif char != closing:
                raise self.stop(end, child, f"expected , or {closing} after this value", "a comma is missing")

    def member(self, path: Path, kind: str, count: int) -> Path:
        if kind == "array":
            self.value((*path, count), self.at, True)
            return (*path, count)
        key = self.at
        name, quoted = self.name(path)
        child: Path = (*path, name)
        if self.blank(child) != ":":
            raise self.stop(key, child, "expected : after this key", "write key: value")
        self.at += 1
        self.blank(child)
        if child in self.nodes:
            self.doubles.append((child, self.line(key)))
        self.value(child, key, quoted)
        return child

    def name(self, path: Path) -> tuple[str, bool]:
        if self.text[self.at] in "\"'":
            return _plain(self.string(path)), True
        found = _NAME.match(self.text, self.at)
        if found is None:
            raise self.stop(self.at, path, "expected a key here", "keys are names or texts in quotes")
        self.at = found.end()
        return _ESCAPE.sub(lambda m: chr(int(m[1], 16)), found[0]), False


def _plain(token: str) -> str:
    """The text a quoted key stands for."""
    if "\\" not in token:
        return token[1:-1]
    try:
        return str(relaxed.decode_json5(token))
    except ValueError:
        return token[1:-1]


def scan_json(text: str) -> JsonScan:
    """Positions of everything in `text`, up to its end or its first fault."""
    scanner = _Scanner(text)
    fault = None
    try:
        scanner.document()
    except _Stop as stop:
        fault = stop.fault
    return JsonScan(scanner.nodes, fault, tuple(scanner.doubles), scanner.comments)


def find_line(text: str, offset: int) -> int:
    """The line (from 1) that character `offset` stands on."""
    return len(_NEWLINE.findall(text[:offset])) + 1
