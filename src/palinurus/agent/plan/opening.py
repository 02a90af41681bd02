"""Turns that nobody wrote for (jobs, heartbeats, wakes): what their messages' options ask of a run.

The options come from the program only; no face hands them on from outside.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, tzinfo
from typing import Protocol, TypeAlias

import msgspec

from palinurus.agent.plan.runplan import RunLimits
from palinurus.core.types.inbound import TurnOptions
from palinurus.core.types.messages import TextBlock, ToolResult, UserMessage
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.startup import DEFAULT_PRELUDE, choose_daily_notes, render_prelude

# The first turn after a bare /new or /reset may begin with the notes of the last days. Reads memory/, once.

STARTUP_FLAG = "startupMemory"  # in the session's record, set by the command, cleared by the turn that used it


def needs_startup_notes(session: SessionRecord) -> bool:
    """Does the session still wait for its first turn after such a command?"""
    return session.extra.get(STARTUP_FLAG) is True


def read_startup_notes(workspace: str, now: int, zone: tzinfo | None) -> str:
    """What stands before the first message; "" if there are no notes of the last days."""
    folder = os.path.join(workspace, "memory")
    today = datetime.fromtimestamp(now / 1000, zone or UTC).date()
    texts: dict[str, str] = {}
    try:
        for name in choose_daily_notes(os.listdir(folder), today):
            path = os.path.join(folder, name)
            if os.path.realpath(path) == os.path.join(os.path.realpath(folder), name):  # no links out
                with open(path, encoding="utf-8", errors="replace") as file:
                    texts[name] = file.read(DEFAULT_PRELUDE.file_bytes)
    except OSError:
        return ""
    return render_prelude(texts)


class MessagePreface(Protocol):
    """What a session is told before the message itself. `source`: whose words they are (taint)."""

    @property
    def text(self) -> str: ...

    @property
    def source(self) -> str: ...


Opening: TypeAlias = tuple[UserMessage | ToolResult, ...]
# (session key, inbox id) -> what is to be told with that message.
Tell: TypeAlias = Callable[[str, str], Awaitable[MessagePreface]]


def limit_timeout(limits: RunLimits, options: TurnOptions) -> RunLimits:
    """With a time limit of its own, if that is shorter."""
    wanted = options.timeout_seconds if options.trigger else None
    if wanted is None or not 0 < wanted < limits.timeout:
        return limits
    return msgspec.structs.replace(limits, timeout=wanted)


def prepend_preface(opening: Opening, text: str, source: str = "") -> Opening:
    """The opening message with `text` before it; `source`: whose words that is (taint)."""
    last = opening[-1] if opening else None
    if not text or not isinstance(last, UserMessage):
        return opening
    source = ", ".join(dict.fromkeys(word for word in (source, last.source) if word))
    return (*opening[:-1], UserMessage((TextBlock(text + "\n\n"), *last.blocks), last.timestamp, source))
