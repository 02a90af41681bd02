"""A chosen silence: the model answers with the token NO_REPLY and nothing is sent. A stray HEARTBEAT_OK, the token of
heartbeats, goes the same way: alone it says nothing, before or behind a text it is left out. Bold, code or tags around
a token count as the token where it is all there is, or alone on its line at an end: within a line they quote it.

`SilenceFilter` holds the token back while it comes in pieces; text that only looked like it is let go.
"""

from __future__ import annotations

from palinurus.patterns import compile_late

SILENCE_TOKEN, HEARTBEAT_TOKEN = "NO_REPLY", "HEARTBEAT_OK"
_EITHER = f"(?:{SILENCE_TOKEN}|{HEARTBEAT_TOKEN})"
_MARKS, _POINTS = "(?:[*_`~]|</?[a-zA-Z]{1,10}>){0,8}", "[.!?,;:…]{0,4}"
_BARE, _END = f"{_EITHER}{_POINTS}", f"{_MARKS}{_POINTS}{_MARKS}"
_MARKED = f"{_MARKS}{_EITHER}{_END}"
_EDGE = rf"(?:{_BARE}|(?<=\n){_MARKED})"
_ANY = rf"{_MARKS}(?:(?i:{SILENCE_TOKEN})|{HEARTBEAT_TOKEN}){_END}"
_SILENT = compile_late(rf"\s*{_ANY}(?:\s+{_ANY})*\s*")
_JSON = compile_late(rf'\s*\{{\s*"action"\s*:\s*"{SILENCE_TOKEN}"\s*\}}\s*')
_COMPACT = f'{{"action":"{SILENCE_TOKEN}"}}'
_LEADING = compile_late(rf"\A\s*(?:{_BARE}\s+|{_MARKED}[ \t]*\n\s*)+")
# bounded, here and below: a text that is nothing but tokens must not be tried from each of them to its end
_TRAILING = compile_late(rf"(?<!\s)(?:\s+{_EDGE}){{1,50}}\s*\Z")
# What could still become a token at the end of a text, or has; the blank before it was let go.
_BEGUN = "|".join(word[:n] for word in (SILENCE_TOKEN, HEARTBEAT_TOKEN) for n in range(len(word), 0, -1))
_PART = r"(?:<[/a-zA-Z]{0,11})?"  # of a tag
_HELD = rf"{_MARKS}(?:{_EITHER}{_END}{_PART}[ \t]*|{_BEGUN}|{_PART})"
_LAST = rf"(?:{_EDGE}\s+){{0,50}}(?:{_BARE}|{_BEGUN}|(?<=\n){_HELD})|(?:{_EDGE}\s+){{1,50}}"
_TAIL = compile_late(rf"(?<=\s)(?:{_LAST})\Z")
_FIRST = compile_late(rf"(?:{_MARKED}\s+)*{_HELD}")


def is_silent(text: str) -> bool:
    """True if the whole text is the token (once or repeated, or as its JSON form), nothing else."""
    return bool(_SILENT.fullmatch(text) or _JSON.fullmatch(text))


def strip_silence(text: str) -> str:
    """`text` without the token before or behind it; "" if it is nothing but the token."""
    if SILENCE_TOKEN not in text.upper() and HEARTBEAT_TOKEN not in text:
        return text
    return "" if is_silent(text) else _TRAILING.sub("", _LEADING.sub("", text))


class SilenceFilter:
    """Lets text through, but no token. Leading blanks go with it."""

    def __init__(self) -> None:
        self._rest = ""
        self._last = ""  # the last character let go; "" until there is one

    @property
    def idle(self) -> bool:
        """Would text without `N` and `H` pass unchanged?"""
        return bool(self._last) and not self._rest

    def pass_over(self, text: str) -> None:
        """`text` went by unchanged; only while idle."""
        if text:
            self._last = text[-1]

    def feed(self, text: str) -> str:
        """What may be shown now."""
        self._rest += text
        if not self._last:
            self._rest = self._rest.lstrip()
            if not self._rest or _waits(self._rest):
                return ""
            self._rest = _LEADING.sub("", self._rest)
            self._last = " "
        tail = _TAIL.search(self._last + self._rest)
        return self._go(tail.start() - 1 if tail else len(self._rest))

    def close(self) -> str:
        """The text has ended: the rest, or nothing."""
        if not self._last:
            return strip_silence(self._rest)
        return "" if _TRAILING.fullmatch(self._last + self._rest) else self._go(len(self._rest))

    def _go(self, count: int) -> str:
        text, self._rest = self._rest[:count], self._rest[count:]
        self.pass_over(text)
        return text


def _waits(text: str) -> bool:
    """May a text that begins like this be a silence, or be one behind which text comes?"""
    if text[0] == "{":
        return _COMPACT.startswith("".join(text.split()))
    return _FIRST.fullmatch(_LEADING.sub("", text)) is not None
