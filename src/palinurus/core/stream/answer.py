"""One message of the model as people get it: without reasoning, marks and the silence token. The whole text at
once, or while it comes (`LiveText`).

Most deltas hold none of these and pass through untouched. At the end of each message the shown text is compared
with the whole one; if they differ in more than an ending, the face is told to put the right one there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec

from palinurus.core.stream.marks import NO_REPLY_MARKS, MarkReader, ReplyMarks, is_web_address
from palinurus.core.stream.silent import SilenceFilter, is_silent, strip_silence
from palinurus.core.stream.tags import TagPiece, TagReader, split_reasoning
from palinurus.core.types.events import AgentStart, MessageEnd, MessageStart, MessageUpdate, RunEvent
from palinurus.core.types.messages import AssistantMessage, Message
from palinurus.patterns import compile_late

# replace: the message's text is this instead
ShownPiece: TypeAlias = tuple[Literal["text", "reasoning", "replace"], str]

MESSAGE_GAP = "\n\n"  # between the texts of two messages
_SPECIAL = compile_late(r"[<\[`~MNH]")


class LiveText:
    """One per run and face. `reasoning` other than "stream" or "on" keeps reasoning back."""

    def __init__(self, reasoning: str = "off") -> None:
        self._reasoning = reasoning in ("on", "stream")
        self._tagged = False  # the model was told to put its answer into <final>
        self._begin()

    def feed(self, event: RunEvent) -> list[ShownPiece]:
        """What the face shows for this event; nothing for events that carry no text."""
        if type(event) is MessageUpdate:
            delta = event.delta
            if event.kind == "text":
                if self._idle and _SPECIAL.search(delta) is None:
                    self._sent.append(delta)
                    return [("text", delta)]
                return self._slow(delta)
            return [("reasoning", delta)] if self._reasoning and delta and event.kind == "thinking" else []
        if type(event) is MessageStart:
            self._begin()
        elif type(event) is MessageEnd and isinstance(event.message, AssistantMessage):
            return self._end(event.message)
        elif type(event) is AgentStart:
            self._tagged = event.tagged
        return []

    def _begin(self) -> None:
        self._made = False  # the machines, with the first text: a message that only calls tools has none
        self._sent: list[str] = []  # text shown of this message
        self._known = 0  # how many of these the machines have seen
        self._idle = False
        self._touched = False

    def _slow(self, delta: str) -> list[ShownPiece]:
        if not self._made:
            self._made = True
            self._tags, self._marks, self._silence = TagReader(enforce=self._tagged), MarkReader(), SilenceFilter()
        if skipped := "".join(self._sent[self._known :]):
            self._tags.pass_over(skipped)
            self._marks.pass_over(skipped)
            self._silence.pass_over(skipped)
        shown: list[ShownPiece] = []
        for piece in self._tags.feed(delta):
            self._piece(piece, shown)
        self._known = len(self._sent)
        self._idle = self._tags.idle and self._marks.idle and self._silence.idle
        return shown

    def _piece(self, piece: TagPiece, shown: list[ShownPiece]) -> None:
        kind, text = piece
        if kind == "text":
            self._say(self._silence.feed(self._marks.feed(text)), shown)
        elif kind == "thinking":
            self._touched = True
            if self._reasoning:
                shown.append(("reasoning", text))
        else:  # what it comes to is known at the end of the message
            self._touched = True
            if kind == "retract":
                self._marks, self._silence = MarkReader(), SilenceFilter()
                self._sent.clear()
                shown.append(("replace", ""))

    def _say(self, text: str, shown: list[ShownPiece]) -> None:
        if text:
            self._sent.append(text)
            shown.append(("text", text))

    def _end(self, message: AssistantMessage) -> list[ShownPiece]:
        """Let go what was held, and set right what came out wrong."""
        sent = "".join(self._sent)
        if self._idle and not self._touched and sent.strip() == message.text.strip() and strip_silence(sent) == sent:
            return []
        right = read_answer(message.text).text if message.text else ""
        self._begin()
        if right == sent.rstrip():
            return []
        return [("text", right[len(sent) :])] if right.startswith(sent) else [("replace", right)]


class VisibleAnswer(msgspec.Struct, frozen=True):
    """`silent`: the model chose to say nothing. `thinking` is what stood in tags."""

    text: str
    thinking: str = ""
    found: ReplyMarks = NO_REPLY_MARKS
    silent: bool = False


def read_answer(text: str, *, allowed: Callable[[str], bool] = is_web_address) -> VisibleAnswer:
    """Read one message's text."""
    made = read_answer_with_tokens(text, allowed=allowed)
    quiet = is_silent(made.text)
    shown = "" if quiet else strip_silence(made.text).strip()
    if not shown and made.found.speech is not None and made.found.speech.text:  # who cannot hear it reads it
        return msgspec.structs.replace(made, text=made.found.speech.text)
    return msgspec.structs.replace(made, text=shown, silent=quiet)


def read_answer_with_tokens(text: str, *, allowed: Callable[[str], bool] = is_web_address) -> VisibleAnswer:
    """As `read_answer`, but the tokens of silence and of heartbeats still stand where they stood."""
    visible, thinking = split_reasoning(text)
    if "[" not in visible and "MEDIA:" not in visible:
        return VisibleAnswer(visible, thinking)
    marks = MarkReader(allowed)
    visible = f"{marks.feed(visible)}{marks.close()}".strip()
    return VisibleAnswer(visible, thinking, marks.found)


@lru_cache(4)  # the end of a run is read five times
def _read_again(text: str) -> VisibleAnswer:
    return read_answer(text)


def collect_visible_text(messages: Iterable[Message]) -> str:
    """All that people see of a run's messages, in order; "" for a chosen silence."""
    texts = [m.text for m in messages if isinstance(m, AssistantMessage)]
    answers = [_read_again(text) for text in texts if text.strip()]
    if answers and answers[-1].silent:
        return ""
    return MESSAGE_GAP.join([a.text for a in answers if a.text])
