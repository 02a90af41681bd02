"""What people see of a heartbeat: its final answer alone, and not even that if it is an acknowledgement or was said
within a day. Reasoning goes along only where the config asks for it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from palinurus.core.stream.answer import answer
from palinurus.core.stream.heartbeat import LIMIT, ack
from palinurus.core.types.events import AgentEnd, Event
from palinurus.core.types.messages import Assistant, Message
from palinurus.core.types.outbound import Reply, Speaker

OPTION = "heartbeat"


class Quiet:
    """A speaker around the run's own."""

    def __init__(self, inner: Speaker, options: Mapping[str, Any]) -> None:
        self._inner = inner
        self._limit = int(options.get("ackMaxChars", LIMIT))
        self._said = str(options.get("said") or "")
        self._reasoning = bool(options.get("reasoning"))
        self._early: list[Reply] = []
        self._last = ""

    def feed(self, event: Event) -> tuple[Reply, ...]:
        """Nothing goes out before the end; a question to a person does."""
        now = self._inner.feed(event)
        if isinstance(event, AgentEnd):
            self._last = last_word(event.messages)
        self._early += [reply for reply in now if reply.kind != "notice"]
        return tuple(reply for reply in now if reply.kind == "notice")

    def close(self) -> tuple[Reply, ...]:
        """The final answer, if it says something new; the words for a run that failed."""
        replies = (*self._early, *self._inner.close())
        finals = [reply for reply in replies if reply.kind == "final"]
        notices = [reply for reply in replies if reply.kind == "notice"]
        if not finals:
            return tuple(notices)
        judged = ack(self._last or finals[-1].text, limit=self._limit)
        if (judged.drop or judged.text == self._said) and not finals[-1].media:
            return tuple(notices)
        thoughts = [reply for reply in replies if reply.kind == "reasoning"] if self._reasoning else []
        return (*thoughts, msgspec.structs.replace(finals[-1], text=judged.text), *notices)


def last_word(messages: Iterable[Message]) -> str:
    """What the last message of a run says to people; "" if it says nothing."""
    said = [m.text for m in messages if isinstance(m, Assistant) and m.text.strip()]
    return answer(said[-1]).text if said else ""
