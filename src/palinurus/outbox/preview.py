"""What a draft shows of a run while it goes: the answer so far, or the reasoning before there is one. Pure.

The text is what people will get: without reasoning, marks and the silence token (`core/stream/live`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from palinurus.core.stream.answer import MESSAGE_GAP
from palinurus.core.stream.live import LiveText
from palinurus.core.types.events import MessageEnd, MessageStart, MessageUpdate, RunEvent
from palinurus.core.types.messages import AssistantMessage
from palinurus.core.types.outbound import RunVisibility

PreviewMode: TypeAlias = Literal["off", "partial", "block"]
FIRST = 30  # characters with which a draft begins: nobody is called for one word
STEP = 800  # characters by which a draft grows at least in mode `block`
LABEL = "Thinking"


class DraftPreview:
    """Fed with a run's events; `now` is the text that the draft should have."""

    def __init__(self, mode: PreviewMode, show: Callable[[], RunVisibility], *, enforce: bool = False) -> None:
        self._mode = mode
        self._show = show
        self._live = LiveText("stream", enforce=enforce)
        self._said: list[str] = []  # messages that are complete
        self._text = ""
        self._thoughts = ""
        self._given = 0  # characters shown so far

    def feed(self, event: RunEvent) -> bool:
        """True if there is something else to be seen."""
        if not isinstance(event, (MessageStart, MessageUpdate, MessageEnd)):
            return False
        if isinstance(event, MessageStart):
            self._text = self._thoughts = ""
        shown = self._live.feed(event)
        for kind, text in shown:
            if kind == "text":
                self._text += text
            elif kind == "replace":
                self._text = text
            else:
                self._thoughts += text
        if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            if self._text.strip():
                self._said.append(self._text.strip())
            self._text = ""
        return bool(shown)

    def begin(self) -> None:
        """What was said so far has gone out: the next draft shows what comes after it."""
        self._said, self._given = [], 0

    def now(self) -> str:
        """The text; "" if there is nothing to be shown (or nothing new)."""
        if not self._show().answer:
            return ""
        text = MESSAGE_GAP.join([*self._said, self._text.strip()]).strip()
        if not text and self._thoughts.strip() and self._show().reasoning == "stream":
            return f"{LABEL}\n{self._thoughts.strip()}"
        least = {"off": None, "partial": 0 if self._given else FIRST, "block": self._given + STEP}[self._mode]
        if least is None or not text or len(text) < least:
            return ""
        self._given = len(text)
        return text
