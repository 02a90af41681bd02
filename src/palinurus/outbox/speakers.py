"""A run's speaker with all that goes on around what it says: a draft that grows, typing, a reaction. Decides nothing
itself; feeds each of them with the run's events.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from palinurus.core.stream.answer import MESSAGE_GAP, LiveText
from palinurus.core.stream.heartbeat import find_last_word, judge_heartbeat_reply
from palinurus.core.stream.progress import write_tool_line
from palinurus.core.types.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    RunEvent,
    ToolStart,
)
from palinurus.core.types.inbound import HeartbeatOptions, Inbound
from palinurus.core.types.messages import AssistantMessage
from palinurus.core.types.outbound import Reply, ReplyBuilder, RunVisibility
from palinurus.outbox.drafts import LiveDraft, LiveDrafts
from palinurus.outbox.pace import BlockPacer
from palinurus.outbox.parts import FittingSpeaker
from palinurus.outbox.presence import RunPresence
from palinurus.patterns import compile_late

_NAMED = compile_late(r"\{([A-Za-z.]+)\}")

# What people see of a heartbeat: its final answer alone, and not even that if it is an acknowledgement or was said
# within a day. Reasoning goes along only where the config asks for it. Pure.


class PrefixedSpeaker:
    """A speaker whose answer begins with messages.responsePrefix: {model}, {modelFull}, {provider}, {thinkingLevel}
    (or {think}) and {identity.name} stand for those of the run."""

    def __init__(self, inner: ReplyBuilder, prefix: str, name: str) -> None:
        self._inner = inner
        self._prefix = f"[{name}]" if prefix == "auto" else prefix
        self._facts = {"identity.name": name}
        self._said = False

    def feed(self, event: RunEvent) -> tuple[Reply, ...]:
        if isinstance(event, AgentStart):
            provider, _, model = event.model.partition("/")
            self._facts |= {"model": model.rpartition("/")[2], "modelfull": event.model, "provider": provider}
            self._facts |= {"thinkinglevel": event.level, "think": event.level}
        return self._put(self._inner.feed(event))

    def close(self) -> tuple[Reply, ...]:
        return self._put(self._inner.close())

    def _put(self, replies: tuple[Reply, ...]) -> tuple[Reply, ...]:
        """Before the first words of the answer; files alone have none."""
        for at, reply in enumerate(replies):
            if self._said or reply.kind not in ("block", "final") or not reply.text.strip():
                continue
            self._said = True
            whole = f"{_NAMED.sub(self._fill, self._prefix)} {reply.text}"
            return (*replies[:at], msgspec.structs.replace(reply, text=whole), *replies[at + 1 :])
        return replies

    def _fill(self, found: re.Match[str]) -> str:
        return self._facts.get(found[1].lower(), found[0])


class HeartbeatSpeaker:
    """A speaker around the run's own. `ok` is sent for a beat that found nothing, where people want to see that."""

    def __init__(self, inner: ReplyBuilder, options: HeartbeatOptions, ok: Reply | None = None) -> None:
        self._inner = inner
        self._ok = (ok,) if ok is not None and options.ok else ()
        self._options = options
        self._early: list[Reply] = []
        self._last, self._ended = "", False

    def feed(self, event: RunEvent) -> tuple[Reply, ...]:
        """Nothing goes out before the end; a question to a person does."""
        now = self._inner.feed(event)
        if isinstance(event, AgentEnd):
            self._last, self._ended = find_last_word(event.messages), event.end in ("stop", "length")
        self._early += [reply for reply in now if reply.kind != "notice"]
        return tuple(reply for reply in now if reply.kind == "notice")

    def close(self) -> tuple[Reply, ...]:
        """The final answer, if it says something new; the words for a run that failed."""
        replies = (*self._early, *self._inner.close())
        finals = [reply for reply in replies if reply.kind == "final"]
        notices = [reply for reply in replies if reply.kind == "notice"]
        if not finals:
            return tuple(notices) or (self._ok if self._ended else ())
        end = judge_heartbeat_reply(self._last or finals[-1].text, self._options)
        if end.drop and not finals[-1].media:
            return (*(self._ok if end.acked else ()), *notices)
        if not self._options.alerts:
            return tuple(notices)
        thoughts = [reply for reply in replies if reply.kind == "reasoning"] if self._options.reasoning else []
        return (*thoughts, msgspec.structs.replace(finals[-1], text=end.text), *notices)


# What a draft shows of a run while it goes: the answer so far, or the reasoning before there is one; in mode `progress`
# the tools that were called. Pure.
#
# The text is what people will get: without reasoning, marks and the silence token (`core/stream/live`).

PreviewMode: TypeAlias = Literal["off", "partial", "block", "progress"]
FIRST = 30  # characters with which a draft begins: nobody is called for one word
STEP = 800  # characters by which a draft grows at least in mode `block`
LINES = 8  # tools that mode `progress` shows: the last ones
LABEL = "Thinking"


class DraftPreview:
    """Fed with a run's events; `now` is the text that the draft should have."""

    def __init__(self, mode: PreviewMode, show: Callable[[], RunVisibility]) -> None:
        self._mode = mode
        self._show = show
        self._live = LiveText("stream")
        self._said: list[str] = []  # messages that are complete
        self._text = ""
        self._thoughts = ""
        self._given = 0  # characters shown so far
        self._tools: list[str] = []  # a line each

    def feed(self, event: RunEvent) -> bool:
        """True if there is something else to be seen."""
        if isinstance(event, ToolStart) and self._mode == "progress":
            line = write_tool_line(event.name, event.args, event.summary, self._show().detail)
            self._tools = [*self._tools[1 - LINES :], line]
            return True
        if not isinstance(event, (AgentStart, MessageStart, MessageUpdate, MessageEnd)):
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
        self._said, self._given, self._tools = [], 0, []

    def now(self) -> str:
        """The text; "" if there is nothing to be shown (or nothing new)."""
        if not self._show().answer:
            return ""
        text = MESSAGE_GAP.join([*self._said, self._text.strip()]).strip()
        if not text and self._thoughts.strip() and self._show().reasoning == "stream":
            return f"{LABEL}\n{self._thoughts.strip()}"
        if self._mode == "progress":  # where tools have bubbles of their own they are told once
            return "\n".join(self._tools) if self._show().verbose == "off" else ""
        least = {"off": None, "partial": 0 if self._given else FIRST, "block": self._given + STEP}[self._mode]
        if least is None or not text or len(text) < least:
            return ""
        self._given = len(text)
        return text


class LiveSpeaker:
    """A speaker around the run's own. `fit` shortens a draft to what the channel takes."""

    def __init__(
        self, inner: FittingSpeaker, inbound: Inbound, item: str, drafts: LiveDrafts, pace: BlockPacer
    ) -> None:
        self._inner = inner
        self._inbound = inbound
        self._item = item
        self._drafts = drafts
        self._pace = pace
        self._draft: LiveDraft | None = None
        self.presence: RunPresence | None = None
        self.preview: DraftPreview | None = None
        self.fit: Callable[[str], str] = str

    def feed(self, event: RunEvent) -> tuple[Reply, ...]:
        if self.presence is not None:
            self.presence.feed(event)
        fresh = self.preview is not None and self.preview.feed(event)
        now = self._inner.feed(event)
        if now and self.preview is not None:  # the first of them takes the draft's place
            self.preview.begin()
            self._draft = None
        elif fresh:
            self._grow()
        return now

    def close(self) -> tuple[Reply, ...]:
        replies = self._inner.close()
        if not replies:
            self._drafts.drop(self._item)
        if self.presence is not None:
            self.presence.close()
        self._pace.end(self._inbound.target)
        return replies

    def _grow(self) -> None:
        if self._draft is None or self._draft.over:
            self._draft = self._drafts.open(self._item, self._inbound.target, self._inner.asked)
        if self._draft is not None and self.preview is not None:
            preview = self.preview
            self._draft.touch(lambda: self.fit(preview.now()))
