"""Finds the few constructs that are not text in a model's text, wherever the deltas were cut.

Rules say what a construct looks like and what could still become one; code spans and fences are always text.
What the constructs mean is the business of `tags` and `marks`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

import msgspec

from palinurus.core.stream.code import FENCE_LOOKAHEAD, CodeFence, is_closing_fence, parse_fence
from palinurus.patterns import compile_late

SPAN = 1000  # characters within which inline code must end; a backtick without a partner is a backtick
MOST = 2100  # characters of the longest construct any rule knows
_RUN = compile_late(r"`+|~+")
_TICKS = compile_late(r"`+")
_BLANK = compile_late(r"\n[ \t]*\n")


class LexRule(msgspec.Struct, frozen=True):
    """`partial` is asked about a text's tail that starts with `start` and did not match: may it still?"""

    name: str
    start: str
    whole: re.Pattern[str]
    partial: Callable[[str], bool]
    last: re.Pattern[str] | None = None  # used instead of `whole` when nothing follows any more
    line: bool = False  # only at the start of a line


class LexToken(msgspec.Struct, frozen=True):
    """Text (`rule` empty), or a construct with its match."""

    text: str
    rule: str = ""
    match: re.Match[str] | None = None


@cache
def _compile_starts(starts: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What begins a construct, with code and without."""
    starts = re.escape(starts)
    return re.compile(f"[{starts}`~]"), re.compile(f"[{starts}]")


class Lexer:
    """`feed` yields what is decided; the rest is kept. With `code` off (inside reasoning) backticks mean nothing."""

    def __init__(self, *rules: LexRule) -> None:
        self._rules = {rule.start: rule for rule in rules}
        self._all, self._some = _compile_starts("".join(self._rules))
        self._rest = ""
        self._fence: CodeFence | None = None
        self._line = ""  # the fence's last line so far
        self._fresh = True  # nothing but blanks on this line yet
        self.code = True

    @property
    def idle(self) -> bool:
        """Nothing kept, no code open: text without a start character would pass unchanged."""
        return not self._rest and self._fence is None

    def feed(self, text: str, *, closing: bool = False) -> Iterator[LexToken]:
        """The tokens that are certain now; with `closing`, all of them."""
        self._rest += text
        while self._rest:
            token = self._fenced() if self._fence is not None and self.code else self._next(closing)
            if token is None:
                return
            yield token

    def pass_over(self, text: str) -> None:
        """`text` went by without being fed; only while idle, only without start characters."""
        if text:
            self._note(text)

    def _next(self, closing: bool) -> LexToken | None:
        special = self._all if self.code else self._some
        at = 0
        while found := special.search(self._rest, at):
            here = found.start()
            look = self._code if found.group() in "`~" else self._construct
            result = look(here, closing)
            if isinstance(result, int):
                at = result
            elif here:
                return self._take(here)
            else:
                return None if result is None else self._take(len(result.text), result)
        return self._take(len(self._rest))

    def _construct(self, at: int, closing: bool) -> LexToken | int | None:
        """The token at `at`; None: wait for more; a number: it is text, go on there."""
        rest = self._rest
        rule = self._rules[rest[at]]
        if rule.line and not self._starts(at):
            return at + 1
        match = rule.whole.match(rest, at)
        if match is None and closing and rule.last is not None:
            match = rule.last.match(rest, at)
        if match is not None:
            return LexToken(match.group(), rule.name, match)
        waits = not closing and len(rest) - at <= MOST and rule.partial(rest[at:])
        return None if waits else at + 1

    def _code(self, at: int, closing: bool) -> LexToken | int | None:
        """As `_construct`, for a run of backticks or tildes: code is a token of text, as a whole."""
        rest = self._rest
        run = _RUN.match(rest, at)
        assert run is not None
        end = run.end()
        if end == len(rest) and not closing:
            return None
        if end - at >= 3 and self._starts(at):
            stop = rest.find("\n", end, at + FENCE_LOOKAHEAD)
            if stop < 0 and len(rest) < at + FENCE_LOOKAHEAD and not closing:
                return None
            fence = parse_fence(rest[at : stop if stop >= 0 else at + FENCE_LOOKAHEAD])
            if fence is not None:
                if at == 0:
                    self._fence, self._line = fence, "…"  # its first line closes nothing
                return LexToken(rest[at:end])
        return end if rest[at] == "~" else self._span(at, end, closing)

    def _span(self, at: int, end: int, closing: bool) -> LexToken | int | None:
        rest, limit = self._rest, end + SPAN
        blank = _BLANK.search(rest, end, limit)
        stop = blank.start() if blank else limit
        for run in _TICKS.finditer(rest, end):
            if run.start() >= stop:
                break
            if run.end() == len(rest) and not closing:
                return None
            if run.end() - run.start() == end - at:
                return LexToken(rest[at : run.end()])
        return end if blank or closing or len(rest) >= limit else None

    def _fenced(self) -> LexToken:
        assert self._fence is not None
        stop = self._rest.find("\n")
        if stop < 0:
            self._line += self._rest
            return self._take(len(self._rest))
        line, self._line = self._line + self._rest[:stop], ""
        if is_closing_fence(line, self._fence):
            self._fence = None
        return self._take(stop + 1)

    def _take(self, count: int, token: LexToken | None = None) -> LexToken:
        text, self._rest = self._rest[:count], self._rest[count:]
        if token is not None and token.rule:
            return token
        if self.code:
            self._note(text)
        return LexToken(text)

    def _starts(self, at: int) -> bool:
        """Is `at` the first character of its line that is not a blank?"""
        _, newline, tail = self._rest[:at].rpartition("\n")
        return not tail.strip(" \t") and bool(newline or self._fresh)

    def _note(self, text: str) -> None:
        _, newline, tail = text.rpartition("\n")
        self._fresh = not tail.strip(" \t") and bool(newline or self._fresh)
