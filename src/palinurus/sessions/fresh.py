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
from palinurus.sessions.entries import DECODER, Header, millis
from palinurus.sessions.record import Record
from palinurus.sessions.reset import Policy, Stale, policy, rollover, stale
from palinurus.store.port import SessionRow

_HEAD = 64 * 1024  # bytes in which a header line is looked for


class Ended(NamedTuple):
    """A session that is over because of its age."""

    record: Record
    reason: Stale


class Current(NamedTuple):
    """`stored`: the row on file is this one. If not, it must be on disk before the turn writes anything."""

    record: Record
    stored: bool
    ended: Ended | None = None

    @property
    def is_new(self) -> bool:
        return not self.stored


class Moment(NamedTuple):
    """When a message came, where, and from whom. `tz` None is the machine's zone."""

    now: int  # when it was accepted
    tz: tzinfo | None = None
    channel: str = ""
    person: bool = True  # False: heartbeat, cron, a finished process: such a message never ends a session


async def current(
    row: SessionRow | None, key: SessionKey, settings: SessionSettings, moment: Moment, ident: str, home: str = ""
) -> Current:
    """The session at `moment`; `ident` becomes the id if one begins. Raises StateBroken for a row that cannot be read.

    `home` is needed only for rows of other programs that do not say when the session began.
    """
    if row is None:
        return Current(Record.fresh(key, moment.now, ident), stored=False)
    record = Record.decode(row.data)
    if not moment.person:
        return Current(record, stored=True)
    if record.sessionStartedAt is None and home:
        file = os.path.join(home, record.path(key.agent))
        record = msgspec.structs.replace(record, sessionStartedAt=await asyncio.to_thread(started, file))
    reason = stale(record, rules(settings, key, moment.channel), moment.now, moment.tz)
    if reason is None:
        return Current(record, stored=True)
    return Current(rollover(record, key, moment.now, ident, asked=False), stored=False, ended=Ended(record, reason))


def rules(settings: SessionSettings, key: SessionKey, channel: str = "") -> Policy:
    """When sessions of this key end."""
    blocks = {
        "reset": settings.reset,
        "resetByType": settings.reset_by_type,
        "resetByChannel": settings.reset_by_channel,
    }
    return policy(blocks, key, channel)


def touched(record: Record, now: int, *, person: bool) -> Record:
    """The record after a turn that ended at `now`. Only people's messages keep a session from idling away."""
    if not person:
        return msgspec.structs.replace(record, updatedAt=now)
    return msgspec.structs.replace(record, updatedAt=now, lastInteractionAt=now)


def started(file: str) -> int | None:
    """When the session of a transcript file began, by its header; None if that cannot be found out."""
    try:
        with open(file, "rb") as handle:
            first = handle.readline(_HEAD)
        header = DECODER.decode(first.removeprefix(b"\xef\xbb\xbf"))
    except (OSError, ValueError, RecursionError):
        return None
    return (millis(header.timestamp) or None) if isinstance(header, Header) else None


# --- what hooks are told --------------------------------------------------------------------------------------


def end_payload(key: SessionKey, ended: Ended, following: str) -> dict[str, Any]:
    """For session_end."""
    return _payload(key, ended.record, reason=ended.reason, nextSessionId=following)


def start_payload(key: SessionKey, found: Current) -> dict[str, Any]:
    """For session_start. `resumedFrom` is the session before this one, if there was one."""
    return _payload(key, found.record, resumedFrom=found.ended.record.sessionId if found.ended else None)


def reset_payload(key: SessionKey, record: Record, reason: str, messages: list[Any]) -> dict[str, Any]:
    """For before_reset, when a person says /new or /reset."""
    return _payload(key, record, reason=reason, messages=messages)


def _payload(key: SessionKey, record: Record, **more: Any) -> dict[str, Any]:
    return {"sessionId": record.sessionId, "sessionKey": str(key), "agentId": key.agent, **more}
