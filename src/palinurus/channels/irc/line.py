"""Lines of the IRC protocol: read, written, cut. Pure; knows no meaning of any command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

MAX_LINE_BYTES = 510  # bytes of a line without its end and without tags
_ESCAPES = {":": ";", "s": " ", "\\": "\\", "r": "\r", "n": "\n"}
_FOLD = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ[]\\^", "abcdefghijklmnopqrstuvwxyz{}|~")
_ASCII = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
# Bold, colours, italics, underline and the like.
_FORMAT = re.compile(
    r"\x03(\d{1,2}(,\d{1,2})?)?|\x04([0-9a-fA-F]{6}(,[0-9a-fA-F]{6})?)?|[\x02\x0f\x11\x16\x1d\x1e\x1f]"
)
_BREAKS = re.compile(r"[\r\n\x00]+")


class IrcLine(NamedTuple):
    """One line. `source` is nick!user@host, or a server's name, or ""."""

    command: str
    params: tuple[str, ...] = ()
    source: str = ""
    tags: Mapping[str, str] = {}

    @property
    def nick(self) -> str:
        return self.source.partition("!")[0]

    def get(self, index: int) -> str:
        """A parameter; "" if there are not so many."""
        return self.params[index] if index < len(self.params) else ""


def parse_line(data: bytes) -> IrcLine | None:
    """The line in these bytes, None if there is none. Text that is not UTF-8 is read as Latin-1."""
    raw = data.strip(b"\r\n\x00")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    tags: dict[str, str] = {}
    if text.startswith("@"):
        head, _, text = text[1:].partition(" ")
        tags = {key: _unescaped(value) for key, _, value in (one.partition("=") for one in head.split(";")) if key}
    text, source = text.lstrip(" "), ""
    if text.startswith(":"):
        source, _, text = text[1:].partition(" ")
    head, found, last = text.lstrip(" ").partition(" :")
    words = head.split(" ")
    params = [one for one in words[1:] if one]
    if found:
        params.append(last)
    return IrcLine(words[0].upper(), tuple(params), source, tags) if words[0] else None


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.?)", lambda m: _ESCAPES.get(m[1], m[1]), value)


def format_line(command: str, *params: str) -> bytes:
    """A line to send. Line breaks in a parameter would begin another command: they become blanks."""
    clean = [_BREAKS.sub(" ", one) for one in params]
    if clean:
        clean[-1] = f":{clean[-1]}"
    return " ".join([command, *clean]).encode("utf-8", "replace") + b"\r\n"


def fold_name(name: str, mapping: str = "rfc1459") -> str:
    """A nick or channel in the one form in which the server compares them."""
    return name.translate(_ASCII if mapping == "ascii" else _FOLD)


def strip_formatting(text: str) -> str:
    """Without colours and the like."""
    return _FORMAT.sub("", text)


def split_text(text: str, most: int) -> list[str]:
    """`text` as messages of at most `most` bytes each: one for each line of it, cut at blanks where there are some,
    never inside a character. Empty lines are left out."""
    found: list[str] = []
    for row in re.split(r"[\r\n]+", text.replace("\x00", "")):
        rest = row.rstrip()
        while rest.strip():
            cut = _fits(rest, most)
            if cut < len(rest) and (blank := rest.rfind(" ", 0, cut + 1)) > cut // 2:
                cut = blank
            found.append(rest[:cut].rstrip())
            rest = rest[cut:].lstrip(" ")
    return found


def _fits(text: str, most: int) -> int:
    """How many characters of it have room; at least one."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return len(text)
    return max(len(data[:most].decode("utf-8", "ignore")), 1)
