"""The first turn after a bare /new or /reset may begin with the notes of the last days. Reads memory/, once."""

from __future__ import annotations

import os
from datetime import UTC, datetime, tzinfo

from palinurus.sessions.record import SessionRecord
from palinurus.sessions.startup import DEFAULT_PRELUDE, choose_daily_notes, render_prelude

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
