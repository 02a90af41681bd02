"""A run's text while it comes, for faces that show deltas: without reasoning tags, marks and the silence token.

Most deltas hold none of these and pass through untouched. At the end of each message the shown text is compared
with the whole one; if they differ in more than an ending, the face is told to put the right one there.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from palinurus.core.stream.answer import read_answer
from palinurus.core.stream.marks import MarkReader
from palinurus.core.stream.silent import SilenceFilter, is_silent
from palinurus.core.stream.tags import TagPiece, TagReader
from palinurus.core.types.events import MessageEnd, MessageStart, MessageUpdate, RunEvent
from palinurus.core.types.messages import AssistantMessage

ShownPiece: TypeAlias = tuple[
    Literal["text", "reasoning", "replace"], str
]  # replace: the message's text is this instead

_special = re.compile(r"[<\[`~MNH]").search


class LiveText:
    """One per run and face. `reasoning` other than "stream" or "on" keeps reasoning back."""

    def __init__(self, reasoning: str = "off", *, enforce: bool = False) -> None:
        self._reasoning = reasoning in ("on", "stream")
        self._enforce = enforce
        self._begin()

    def feed(self, event: RunEvent) -> list[ShownPiece]:
        """What the face shows for this event; nothing for events that carry no text."""
        if type(event) is MessageUpdate:
            delta = event.delta
            if event.kind == "text":
                if self._idle and _special(delta) is None:
                    self._sent.append(delta)
                    return [("text", delta)]
                return self._slow(delta)
            return [("reasoning", delta)] if self._reasoning and delta else []
        if type(event) is MessageStart:
            self._begin()
        elif type(event) is MessageEnd and isinstance(event.message, AssistantMessage):
            return self._end(event.message)
        return []

    def _begin(self) -> None:
        self._tags, self._marks, self._hush = TagReader(enforce=self._enforce), MarkReader(), SilenceFilter()
        self._sent: list[str] = []  # text shown of this message
        self._known = 0  # how many of these the machines have seen
        self._idle = False
        self._touched = False

    def _slow(self, delta: str) -> list[ShownPiece]:
        if skipped := "".join(self._sent[self._known :]):
            self._tags.pass_over(skipped)
            self._marks.pass_over(skipped)
            self._hush.pass_over(skipped)
        shown: list[ShownPiece] = []
        for piece in self._tags.feed(delta):
            self._piece(piece, shown)
        self._known = len(self._sent)
        self._idle = self._tags.idle and self._marks.idle and self._hush.idle
        return shown

    def _piece(self, piece: TagPiece, shown: list[ShownPiece]) -> None:
        kind, text = piece
        if kind == "text":
            self._say(self._hush.feed(self._marks.feed(text)), shown)
        elif kind == "thinking":
            self._touched = True
            if self._reasoning:
                shown.append(("reasoning", text))
        else:  # what it comes to is known at the end of the message
            self._touched = True
            if kind == "retract":
                self._marks, self._hush = MarkReader(), SilenceFilter()
                self._sent.clear()
                shown.append(("replace", ""))

    def _say(self, text: str, shown: list[ShownPiece]) -> None:
        if text:
            self._sent.append(text)
            shown.append(("text", text))

    def _end(self, message: AssistantMessage) -> list[ShownPiece]:
        """Let go what was held, and set right what came out wrong."""
        sent = "".join(self._sent)
        if self._idle and not self._touched and sent.strip() == message.text.strip() and not is_silent(sent):
            return []
        right = read_answer(message.text, enforce=self._enforce).text
        self._begin()
        if right == sent.rstrip():
            return []
        return [("text", right[len(sent) :])] if right.startswith(sent) else [("replace", right)]
