"""Reasoning in running text: <think>, <thinking>, <thought>, <antthinking> (each also antml:) and <final>.

A machine: the same pieces, joined, however the deltas were cut. Tags in code are text. What a tag that was never
opened or never closed means is known only later; `retract` and `release` say so when it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from palinurus.core.stream.lex import Lexer, LexRule, LexToken
from palinurus.patterns import compile_late

Kind: TypeAlias = Literal[
    "text",
    "thinking",
    "retract",  # all text so far was reasoning: a closing tag without an opening one or <final> came, then text
    "release",  # the reasoning that came last, carried here again, is the answer: there is no other
]

_NAMES = ("think", "thinking", "thought", "antthinking", "final")
_WORDS = (*_NAMES, *(f"antml:{name}" for name in _NAMES))
_INSIDE = r"(?:[\s/][^<>]{0,100})?"  # attributes; a longer one is no tag, so that no text waits for ever


def _prefixes(word: str) -> str:
    """A pattern for every beginning of `word`, the whole word included."""
    pattern = ""
    for letter in reversed(word):
        pattern = f"{re.escape(letter)}(?:{pattern})?" if pattern else re.escape(letter)
    return pattern


_TAG = compile_late(rf"<\s{{0,4}}(/?)\s{{0,4}}(?:antml:)?({'|'.join(_NAMES)}){_INSIDE}>", re.IGNORECASE)
_PARTIAL = compile_late(
    rf"<\s{{0,4}}/?\s{{0,4}}(?:{'|'.join(_prefixes(w) for w in _WORDS)}|(?:{'|'.join(_WORDS)}){_INSIDE})?",
    re.IGNORECASE,
)
_RULE = LexRule("tag", "<", _TAG, lambda tail: _PARTIAL.fullmatch(tail) is not None)


class TagPiece(NamedTuple):
    kind: Kind
    text: str = ""


class ReasoningSplit(NamedTuple):
    """A whole text: what people see, and the reasoning it held."""

    visible: str
    thinking: str


class TagReader:
    """Once <final> is used, only what stands inside is text, and all else was reasoning. `enforce`: the model was
    told to use it, so nothing is given out before it; if none comes, everything is text after all."""

    def __init__(self, *, enforce: bool = False) -> None:
        self._lex = Lexer(_RULE)
        self._enforce = enforce
        self._raw: list[str] = []  # only with `enforce`: the text to fall back on
        self._thinking = False
        self._inside = False  # <final>
        self._finals = False
        self._answered = False  # text that is not blank stood inside
        self._spoke = False  # text that is not blank has been given out
        self._held: list[str] = []  # reasoning since the opening tag, while nothing was spoken
        self._orphan = False
        self._blank = BlankTrimmer()

    @property
    def idle(self) -> bool:
        """Would text without `<`, backticks and tildes pass unchanged?"""
        plain = not (self._thinking or self._orphan or self._enforce or self._finals is not self._inside)
        return plain and self._lex.idle and not self._blank.eating

    def pass_over(self, text: str) -> None:
        """`text` went by unchanged; only while idle."""
        self._lex.pass_over(text)
        self._blank.pass_over(text)

    def feed(self, text: str) -> list[TagPiece]:
        """What is certain now."""
        if self._enforce:
            self._raw.append(text)
        return self._run(self._lex.feed(text))

    def close(self) -> list[TagPiece]:
        """The text has ended: the rest."""
        pieces = self._run(self._lex.feed("", closing=True))
        if self._enforce and not self._answered:
            return [*pieces, TagPiece("text", split_reasoning("".join(self._raw)).visible)]
        if (self._thinking or self._finals) and not self._spoke and (text := "".join(self._held)).strip():
            pieces.append(TagPiece("release", text))
        return pieces

    def _run(self, tokens: Iterable[LexToken]) -> list[TagPiece]:
        pieces: list[TagPiece] = []
        for token in tokens:
            if token.match is not None:
                self._tag(token.match)
            else:
                self._text(token.text, pieces)
        return pieces

    def _tag(self, match: re.Match[str]) -> None:
        closing, name = bool(match[1]), match[2].lower()
        if name == "final":
            if not self._thinking and self._inside is closing:
                self._orphan = self._orphan or (self._spoke and not self._finals)
                self._inside, self._finals = not closing, True
                self._held = []
                self._blank.gap()
            return
        if self._thinking is not closing:  # nested, or a closing tag on its own
            self._orphan = self._orphan or (closing and self._spoke)
        else:
            self._thinking = not closing
            self._lex.code = closing
            self._held = []
        if closing:
            self._blank.gap()

    def _text(self, text: str, pieces: list[TagPiece]) -> None:
        if self._thinking or (self._finals and not self._inside):
            if not self._spoke:
                self._held.append(text)
            _add(pieces, "thinking", text)
            return
        if self._enforce and not self._inside:
            return
        text = text.lstrip() if self._orphan else self._blank.trim(text)
        if not text:
            return
        if self._orphan:
            self._orphan = False
            pieces.append(TagPiece("retract"))
            self._blank.restart(text)
        self._spoke = self._spoke or not text.isspace()
        self._answered = self._answered or (self._inside and not text.isspace())
        _add(pieces, "text", text)


class BlankTrimmer:
    """Where something was taken out of a text, blanks are not left on both sides. Leading ones go too."""

    def __init__(self) -> None:
        self._last = ""
        self.eating = True

    def gap(self) -> None:
        """Something was taken out here."""
        self.eating = True

    def trim(self, text: str) -> str:
        """`text` without the blanks that are too many."""
        if self.eating:
            if self._last in ("", "\n"):
                text = text.lstrip()
            elif self._last in " \t":
                text = text.lstrip(" \t")
            self.eating = not text
        self.pass_over(text)
        return text

    def pass_over(self, text: str) -> None:
        if text:
            self._last = text[-1]

    def restart(self, text: str) -> None:
        """All before is gone; `text` is the new beginning."""
        self.eating = False
        self.pass_over(text)


def _add(pieces: list[TagPiece], kind: Kind, text: str) -> None:
    if pieces and pieces[-1].kind == kind:
        pieces[-1] = TagPiece(kind, pieces[-1].text + text)
    else:
        pieces.append(TagPiece(kind, text))


def split_reasoning(text: str) -> ReasoningSplit:
    """A whole text at once."""
    if "<" not in text:
        return ReasoningSplit(text.strip(), "")
    tags = TagReader()
    return fold_pieces([*tags.feed(text), *tags.close()])


def fold_pieces(pieces: Iterable[TagPiece]) -> ReasoningSplit:
    """What the pieces come to."""
    visible, thinking = "", ""
    for kind, text in pieces:
        if kind == "text":
            visible += text
        elif kind == "thinking":
            thinking += text
        elif kind == "retract":
            visible, thinking = "", thinking + visible
        else:
            visible, thinking = visible + text, thinking.removesuffix(text)
    return ReasoningSplit(visible.strip(), thinking.strip())
