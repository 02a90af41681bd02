"""The session a message belongs to: the one on file, a new one, or the successor of one that went stale.

Decides by when the message was accepted, not by when its turn starts: a turn that is resumed after a crash finds the
same session. Reads the head of a transcript where an old row does not say when it began; writes nothing.
"""

from __future__ import annotations

import asyncio
import os
from datetime import tzinfo
from typing import Any, NamedTuple

import msgspec

from palinurus.config.settings import SessionSettings
from palinurus.core.types.keys import SessionKey
from palinurus.sessions.entries import ENTRY_DECODER, TranscriptHeader, to_millis
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.reset import ResetPolicy, StaleReason, find_stale_reason, read_reset_policy, roll_over
from palinurus.store.port import SessionRow

_HEAD = 64 * 1024  # bytes in which a header line is looked for


class EndedSession(NamedTuple):
    """A session that is over because of its age."""

    record: SessionRecord
    reason: StaleReason


class CurrentSession(NamedTuple):
    """`stored`: the row on file is this one. If not, it must be on disk before the turn writes anything."""

    record: SessionRecord
    stored: bool
    ended: EndedSession | None = None

    @property
    def is_new(self) -> bool:
        return not self.stored


class MessageMoment(NamedTuple):
    """When a message came, where, and from whom. `tz` None is the machine's zone."""

    now: int  # when it was accepted
    tz: tzinfo | None = None
    channel: str = ""
    person: bool = True  # False: heartbeat, cron, a finished process: such a message never ends a session


async def find_current_session(
    row: SessionRow | None,
    key: SessionKey,
    settings: SessionSettings,
    moment: MessageMoment,
    ident: str,
    home: str = "",
) -> CurrentSession:
    """The session at `moment`; `ident` becomes the id if one begins. Raises StateBroken for a row that cannot be read.

    `home` is needed only for rows of other programs that do not say when the session began.
    """
    if row is None:
        return CurrentSession(SessionRecord.fresh(key, moment.now, ident), stored=False)
    record = SessionRecord.decode(row.data)
    if not moment.person:
        return CurrentSession(record, stored=True)
    if record.sessionStartedAt is None and home:
        file = os.path.join(home, record.path(key.agent))
        record = msgspec.structs.replace(record, sessionStartedAt=await asyncio.to_thread(read_start_time, file))
    reason = find_stale_reason(record, find_reset_policy(settings, key, moment.channel), moment.now, moment.tz)
    if reason is None:
        return CurrentSession(record, stored=True)
    return CurrentSession(
        roll_over(record, key, moment.now, ident, asked=False), stored=False, ended=EndedSession(record, reason)
    )


def find_reset_policy(settings: SessionSettings, key: SessionKey, channel: str = "") -> ResetPolicy:
    """When sessions of this key end."""
    blocks = {
        "reset": settings.reset,
        "resetByType": settings.reset_by_type,
        "resetByChannel": settings.reset_by_channel,
    }
    return read_reset_policy(blocks, key, channel)


def touch_record(record: SessionRecord, now: int, *, person: bool) -> SessionRecord:
    """The record after a turn that ended at `now`. Only people's messages keep a session from idling away."""
    if not person:
        return msgspec.structs.replace(record, updatedAt=now)
    return msgspec.structs.replace(record, updatedAt=now, lastInteractionAt=now)


def read_start_time(file: str) -> int | None:
    """When the session of a transcript file began, by its header; None if that cannot be found out."""
    try:
        with open(file, "rb") as handle:
            first = handle.readline(_HEAD)
        header = ENTRY_DECODER.decode(first.removeprefix(b"\xef\xbb\xbf"))
    except (OSError, ValueError, RecursionError):
        return None
    return (to_millis(header.timestamp) or None) if isinstance(header, TranscriptHeader) else None


# --- what hooks are told --------------------------------------------------------------------------------------


def make_end_payload(key: SessionKey, ended: EndedSession, following: str) -> dict[str, Any]:
    """For session_end."""
    return _payload(key, ended.record, reason=ended.reason, nextSessionId=following)


def make_start_payload(key: SessionKey, found: CurrentSession) -> dict[str, Any]:
    """For session_start. `resumedFrom` is the session before this one, if there was one."""
    return _payload(key, found.record, resumedFrom=found.ended.record.sessionId if found.ended else None)


def make_reset_payload(key: SessionKey, record: SessionRecord, reason: str, messages: list[Any]) -> dict[str, Any]:
    """For before_reset, when a person says /new or /reset."""
    return _payload(key, record, reason=reason, messages=messages)


def _payload(key: SessionKey, record: SessionRecord, **more: Any) -> dict[str, Any]:
    return {"sessionId": record.sessionId, "sessionKey": str(key), "agentId": key.agent, **more}
