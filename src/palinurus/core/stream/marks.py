"""Marks a model puts into its text to say how it is sent: [[reply_to_current]], [[reply_to:id]], [[media:url]],
[[audio_as_voice]], [[tts:voice=x]] and lines `MEDIA: url`; what stands in [[tts:text]]…[[/tts:text]] is for ears only.
A machine: marks leave the text wherever the deltas were cut; those in code stay. Which references may be sent is asked
of the caller; a mark that may not be stays as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from palinurus.core.speech import SpokenText, parse_speech_options
from palinurus.core.stream.lex import Lexer, LexRule, LexToken
from palinurus.core.stream.tags import BlankTrimmer
from palinurus.patterns import compile_late

_NAMES = ("reply_to_current", "audio_as_voice", "reply_to", "media", "tts", "/tts")
_MARK = compile_late(
    r"\[\[[ \t]{0,4}(?:(reply_to_current|audio_as_voice|/?tts)|(reply_to|media|/?tts)[ \t]{0,4}:"
    r"[ \t]{0,4}([^\[\]\n]{1,1000}?))[ \t]{0,4}\]\]",
    re.IGNORECASE,
)
_HEAD = compile_late(r"\[(?:\[[ \t]{0,4}(/?[a-z_]*)(.*))?", re.IGNORECASE | re.DOTALL)
_TAIL = compile_late(r"[ \t]{0,4}(?::[^\[\]\n]{0,1008})?(?:\]\]?)?")
_LINE = compile_late(r"MEDIA:([^\n]{1,2000})\n")
_LAST = compile_late(r"MEDIA:([^\n]{1,2000})\Z")
_QUOTES = "`'\"<>"


def _mark(tail: str) -> bool:
    found = _HEAD.fullmatch(tail)
    if found is None or found[1] is None:
        return found is not None
    word, rest = found[1].lower(), found[2]
    if not rest:
        return any(name.startswith(word) for name in _NAMES)
    return word in _NAMES and _TAIL.fullmatch(rest) is not None


def _line(tail: str) -> bool:
    return "MEDIA:".startswith(tail) or (tail.startswith("MEDIA:") and "\n" not in tail and len(tail) <= 2006)


_RULES = (
    LexRule("mark", "[", _MARK, _mark),
    LexRule("line", "M", _LINE, _line, last=_LAST, line=True),
)


class ReplyMarks(msgspec.Struct, frozen=True):
    """What the marks said."""

    reply_to: str = ""  # the first explicit id
    current: bool = False
    voice: bool = False
    media: tuple[str, ...] = ()
    speech: SpokenText | None = None  # to be read aloud; without words of its own, what the text says


def is_web_address(reference: str) -> bool:
    """Is it a web address?"""
    return reference.lower().startswith(("https://", "http://")) and len(reference.split("://", 1)[1]) > 2


def allow_beneath(roots: Iterable[str]) -> Callable[[str], bool]:
    """Web addresses, and files below one of `roots` (absolute directories)."""
    tops = tuple(f"{root.rstrip('/')}/" for root in roots)

    def allowed(reference: str) -> bool:
        path = reference.removeprefix("file://")
        return is_web_address(reference) or (path.startswith(tops) and ".." not in path.split("/") and "\0" not in path)

    return allowed


NO_REPLY_MARKS = ReplyMarks()


class MarkReader:
    """`allowed` says which media may be sent."""

    def __init__(self, allowed: Callable[[str], bool] = is_web_address) -> None:
        self._lex = Lexer(*_RULES)
        self._allowed = allowed
        self._blank = BlankTrimmer()
        self._hidden: list[str] | None = None  # what stands in a [[tts:text]] that is open
        self.found = NO_REPLY_MARKS

    @property
    def idle(self) -> bool:
        """Would text without `[`, `M`, backticks and tildes pass unchanged?"""
        return self._lex.idle and not self._blank.eating and self._hidden is None

    def pass_over(self, text: str) -> None:
        """`text` went by unchanged; only while idle."""
        self._lex.pass_over(text)
        self._blank.pass_over(text)

    def feed(self, text: str) -> str:
        """The text that is certain now; what was found is in `found`."""
        return "".join(self.each(text))

    def each(self, text: str, *, closing: bool = False) -> Iterator[str]:
        """The same piece by piece: with each piece, `found` is what stood before it."""
        for token in self._lex.feed(text, closing=closing):
            if token.match is not None and self._take(token, token.match):
                continue
            if self._hidden is not None:
                self._hidden.append(token.text)
            else:
                yield self._blank.trim(token.text)
        if closing and self._hidden is not None:  # never closed: nobody is to miss it
            left, self._hidden = "".join(self._hidden), None
            yield self._blank.trim(left)

    def close(self) -> str:
        """The text has ended: the rest."""
        return "".join(self.each("", closing=True))

    def _take(self, token: LexToken, match: re.Match[str]) -> bool:
        """Note the mark. False if it stays in the text."""
        known = self._line(match[1]) if token.rule == "line" else self._word(match)
        if known:
            self._blank.gap()
        return known

    def _line(self, text: str) -> bool:
        names = [word.strip(_QUOTES) for word in text.split()]
        return bool(names) and all(map(self._allowed, names)) and self._media(*names)

    def _word(self, match: re.Match[str]) -> bool:
        name = (match[1] or match[2]).lower()
        value = (match[3] or "").strip()
        if name in ("tts", "/tts"):
            return self._speech(name, value)
        if self._hidden is not None:
            return False
        if name == "media":
            return self._allowed(value.strip(_QUOTES)) and self._media(value.strip(_QUOTES))
        field, said = {
            "reply_to_current": ("current", True),
            "audio_as_voice": ("voice", True),
            "reply_to": ("reply_to", self.found.reply_to or value),
        }[name]
        self.found = msgspec.structs.replace(self.found, **{field: said})
        return True

    def _speech(self, name: str, value: str) -> bool:
        """A directive, or one end of what only ears get."""
        had = self.found.speech or SpokenText()
        if name == "/tts":
            if self._hidden is None:
                return False
            words, self._hidden = "".join(self._hidden).strip(), None
            made = SpokenText("\n".join(part for part in (had.text, words) if part), had.options)
        elif value.lower() == "text":
            self._hidden = [] if self._hidden is None else self._hidden
            made = had
        else:
            made = SpokenText(had.text, {**parse_speech_options(value), **had.options})
        self.found = msgspec.structs.replace(self.found, speech=made)
        return True

    def _media(self, *names: str) -> bool:
        fresh = [n for n in dict.fromkeys(names) if n not in self.found.media]
        self.found = msgspec.structs.replace(self.found, media=(*self.found.media, *fresh))
        return True
