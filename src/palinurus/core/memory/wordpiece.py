"""Text as the numbers a BERT model knows: lower case, no accents, words cut into the longest pieces of the vocabulary.

Pure, and without numpy: the numbers are plain lists.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from palinurus.patterns import compile_late

LONGEST = 100  # letters of a word; longer ones are unknown
_CHINESE = compile_late(r"([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f])")


class Wordpiece:
    """Cuts texts by one vocabulary. Raises KeyError when made from one without [UNK], [CLS] and [SEP]."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._known = {piece: number for number, piece in enumerate(vocabulary)}
        self._unknown = self._known["[UNK]"]
        self.first, self.last = self._known["[CLS]"], self._known["[SEP]"]

    def numbers(self, text: str) -> list[int]:
        """The pieces of the text, without the marks of beginning and end."""
        return [number for word in _words(text) for number in self._pieces(word)]

    def windows(self, text: str, size: int) -> list[list[int]]:
        """The pieces in rows of at most `size`, each with its marks. An empty text is one row of marks."""
        found = self.numbers(text)
        step = size - 2
        cuts = range(0, len(found), step) if found else (0,)
        return [[self.first, *found[at : at + step], self.last] for at in cuts]

    def _pieces(self, word: str) -> list[int]:
        made: list[int] = []
        at = 0
        while at < len(word) <= LONGEST:
            end = len(word)
            while end > at and (piece := ("##" if at else "") + word[at:end]) not in self._known:
                end -= 1
            if end == at:
                return [self._unknown]
            made.append(self._known[piece])
            at = end
        return made or [self._unknown]


def _words(text: str) -> Iterator[str]:
    shown = "".join(c if not _control(c) else "" for c in text.replace("\0", "").replace("\ufffd", ""))
    plain = unicodedata.normalize("NFD", _CHINESE.sub(r" \1 ", shown).lower())
    for word in "".join(c for c in plain if unicodedata.category(c) != "Mn").split():
        start = 0
        for at, letter in enumerate(word):
            if _punctuation(letter):
                if start < at:
                    yield word[start:at]
                yield letter
                start = at + 1
        if start < len(word):
            yield word[start:]


def _control(letter: str) -> bool:
    return letter not in "\t\n\r" and unicodedata.category(letter)[0] == "C"


def _punctuation(letter: str) -> bool:
    """All of ASCII that is no letter, digit or space counts, currency and arithmetic too."""
    return (letter.isascii() and not letter.isalnum()) or unicodedata.category(letter)[0] == "P"
