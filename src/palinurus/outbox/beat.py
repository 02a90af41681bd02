"""What people see of a heartbeat: its final answer alone, and not even that if it is an acknowledgement or was said
within a day. Reasoning goes along only where the config asks for it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.core.stream.alert import find_last_word, judge_heartbeat_reply
from palinurus.core.types.events import AgentEnd, RunEvent
from palinurus.core.types.outbound import Reply, ReplyBuilder


class HeartbeatSpeaker:
    """A speaker around the run's own. `ok` is sent for a beat that found nothing, where people want to see that."""

    def __init__(self, inner: ReplyBuilder, options: Mapping[str, Any], ok: Reply | None = None) -> None:
        self._inner = inner
        self._ok = (ok,) if ok is not None and options.get("ok") else ()
        self._alerts = options.get("alerts") is not False
        self._options = options
        self._reasoning = bool(options.get("reasoning"))
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
        if not self._alerts:
            return tuple(notices)
        thoughts = [reply for reply in replies if reply.kind == "reasoning"] if self._reasoning else []
        return (*thoughts, msgspec.structs.replace(finals[-1], text=end.text), *notices)
