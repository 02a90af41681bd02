"""One message of the model as blocks while it grows. Pure: the same blocks however its deltas were cut, so that a
message heard again after a crash gives the same blocks again.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from palinurus.core.stream.answer import VisibleAnswer, read_answer
from palinurus.core.stream.chunk import BlockSettings, Chunker
from palinurus.core.stream.marks import MarkReader, ReplyMarks
from palinurus.core.stream.silent import SilenceFilter
from palinurus.core.stream.tags import TagPiece, TagReader


class GrowingMessage:
    """`feed` text and `think` reasoning as they come; `close` with the whole text gives what is left."""

    def __init__(self, settings: BlockSettings, allowed: Callable[[str], bool], *, enforce: bool = False) -> None:
        self._settings = settings
        self._allowed = allowed
        self._tags = TagReader(enforce=enforce)
        self._marks = MarkReader(allowed)
        self._hush = SilenceFilter()
        self._chunks = Chunker(settings)
        self._fed = 0
        self._thoughts: list[str] = []
        self._sent: tuple[str, ...] = ()  # media that went out
        self._spoke = False

    def think(self, delta: str) -> None:
        """Reasoning that came on its own."""
        self._thoughts.append(delta)

    def take_thoughts(self) -> str:
        """The reasoning since it was last asked for."""
        text, self._thoughts = "".join(self._thoughts), []
        return text

    def feed(self, delta: str) -> list[VisibleAnswer]:
        """The blocks that are complete now."""
        if self._settings.at == "message_end":
            return []
        self._fed += len(delta)
        return self._heard(self._tags.feed(delta))

    def close(self, text: str) -> tuple[list[VisibleAnswer], VisibleAnswer]:
        """The blocks that came with the end, and what is left for the reply that ends the turn."""
        parts = self._heard([*self._tags.feed(text[self._fed :]), *self._tags.close()])
        for piece in self._marks.each("", closing=True):
            parts += self._said(self._hush.feed(piece))
        parts += self._said(self._hush.close())
        last = self._chunks.close()
        if not self._spoke and read_answer(text, allowed=self._allowed).silent:
            return [], VisibleAnswer("", found=self._new(last=True), silent=True)
        parts += [VisibleAnswer(chunk.rstrip(), found=self._new()) for chunk in last[:-1]]
        return parts, VisibleAnswer(last[-1].strip() if last else "", found=self._new(last=True))

    def _heard(self, pieces: list[TagPiece]) -> list[VisibleAnswer]:
        parts: list[VisibleAnswer] = []
        for kind, text in pieces:
            if kind == "thinking":
                self._thoughts.append(text)
            elif kind == "retract":  # what was sent is sent
                self._marks, self._hush = MarkReader(self._allowed), SilenceFilter()
                self._chunks.clear()
            else:
                for piece in self._marks.each(text):
                    parts += self._said(self._hush.feed(piece))
        return parts

    def _said(self, text: str) -> list[VisibleAnswer]:
        """The blocks `text` completes, each with the marks that stood before its end."""
        parts = [VisibleAnswer(chunk.rstrip(), found=self._new()) for chunk in self._chunks.feed(text)]
        self._spoke = self._spoke or bool(parts)
        return parts

    def _new(self, *, last: bool = False) -> ReplyMarks:
        """What the marks say, with the media that were not sent yet; what is to be spoken comes with the last."""
        found = self._marks.found if last else msgspec.structs.replace(self._marks.found, speech=None)
        fresh = tuple(m for m in found.media if m not in self._sent)
        self._sent += fresh
        return msgspec.structs.replace(found, media=fresh)
