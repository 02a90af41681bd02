"""The life of a session: which one a message belongs to, when it starts anew and what the new one keeps of the old,
branching off, and forgetting.

A message's session is decided by when it was accepted, not by when its turn starts: a turn that is resumed after a
crash finds the same one. What writes the store does two steps in an order that a kill between them leaves sound.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta, tzinfo
from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.config.sections.session import SessionSettings
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.errors import BadRequest
from palinurus.files import open_plain_file
from palinurus.sessions import files, search, tree
from palinurus.sessions.entries import ENTRY_DECODER, TranscriptHeader, to_millis
from palinurus.sessions.record import SessionRecord, list_record_paths
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import SessionRow, Store

StaleReason: TypeAlias = Literal["daily", "idle"]

AT_HOUR = 4
PRINTED = "print:"  # sessions of `pal -p`
IDLE_MINUTES = 60  # of mode idle without a number
_HEAD = 64 * 1024  # bytes in which a header line is looked for
# What a branch takes over from the session it comes from: what a person chose, not where its replies went.
INHERITED = (
    "thinkingLevel", "verboseLevel", "reasoningLevel", "fastMode", "providerOverride", "modelOverride",
    "modelOverrideSource", "authProfileOverride", "authProfileOverrideSource", "modelProvider", "model",
    "permissionMode", "folder",
)  # fmt: skip


def choose_branch_key(agent: str, name: str | None, target: str | None, taken: Collection[str]) -> SessionKey:
    """The key asked for, or one made from the entry's id. Raises BadRequest if it is taken or another agent's."""
    if name is None:
        base = SessionKey(agent, f"explicit:branch-{target or tree.ROOT}")
        made, number = base, 1
        while str(made) in taken:
            number += 1
            made = msgspec.structs.replace(base, rest=f"{base.rest}-{number}")
        return made
    key = parse_session_key(name if name.lower().startswith("agent:") else f"agent:{agent}:{name}")
    if key is None:
        raise BadRequest(f"not a session key: {name[:80]!r}")
    if key.agent != agent:
        raise BadRequest(f"a branch stays with its agent {agent!r}")
    if str(key) in taken:
        raise BadRequest(f"there is a session {key} already", fix="choose another key")
    return key


def make_branch_record(
    parent: SessionRecord, origin: SessionKey, key: SessionKey, now: int, ident: str
) -> SessionRecord:
    """The record of a session that comes out of another."""
    return msgspec.structs.replace(
        SessionRecord.fresh(key, now, ident),
        parentSessionKey=str(origin),
        forkedFromParent=True,
        **{n: value for n in INHERITED if (value := getattr(parent, n)) is not None},
    )


async def create_branch(
    home: str, store: Store, transcript: Transcript, record: SessionRecord, key: SessionKey, entry: str | None, now: int
) -> None:
    """The session `record` at `key` begins with what `transcript` says up to `entry`. The file first, then the row:
    if the second fails, an unused file is all that is left. Raises DiskFull, StateUnwritable."""
    made = tree.fork_transcript(transcript, entry, record.sessionId, now)
    await asyncio.to_thread(files.place_file, home, record.path(key.agent), made)
    await store.save_session(record.row(key))


async def delete_session(home: str, store: Store, key: SessionKey, record: SessionRecord, now: int) -> str:
    """Forget a session; returns where its transcript is kept, "" if another session uses it or there is none.
    The file first: killed after it, a second call finds the row and ends what was begun. Raises BadRequest,
    StateUnwritable."""
    if key.kind == "main":
        raise BadRequest(f"Cannot delete the main session ({key}).", fix="`pal sessions reset` starts it anew")
    path = record.path(key.agent)
    others = [row for row in await store.sessions(key.agent) if row.key != str(key)]
    used = any(list_record_paths(row)[0] == path for row in others)
    if not used:
        await store.complete_file(path)  # or what is still in the journal would make the file anew after a kill
    kept = "" if used else await asyncio.to_thread(files.archive_file, home, path, "deleted", now)
    await asyncio.to_thread(search.forget_files, home, () if used else (path,))
    await store.drop_session(str(key), "" if used else path)
    return kept


class EndedSession(msgspec.Struct, frozen=True):
    """A session that is over because of its age."""

    record: SessionRecord
    reason: StaleReason


class CurrentSession(msgspec.Struct, frozen=True):
    """`stored`: the row on file is this one. If not, it must be on disk before the turn writes anything."""

    record: SessionRecord
    stored: bool
    ended: EndedSession | None = None
    before: bytes | None = None  # what the row held when it was read; None: there was none

    @property
    def is_new(self) -> bool:
        return not self.stored


class MessageMoment(msgspec.Struct, frozen=True):
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
        return CurrentSession(record, stored=True, before=row.data)
    if record.sessionStartedAt is None and home:
        file = os.path.join(home, record.path(key.agent))
        record = msgspec.structs.replace(record, sessionStartedAt=await asyncio.to_thread(read_start_time, file))
    rule = find_reset_policy(settings, key, moment.channel, works=bool(record.folder))
    reason = find_stale_reason(record, rule, moment.now, moment.tz)
    if reason is None:
        return CurrentSession(record, stored=True, before=row.data)
    return CurrentSession(
        roll_over(record, key, moment.now, ident, asked=False),
        stored=False,
        ended=EndedSession(record, reason),
        before=row.data,
    )


def find_reset_policy(
    settings: SessionSettings, key: SessionKey, channel: str = "", *, works: bool = False
) -> ResetPolicy:
    """When sessions of this key end. One that `works` in a folder ends by a rule of the owner's only: whoever goes on
    with yesterday's work means what was said there."""
    blocks = {
        "reset": settings.reset,
        "resetByType": settings.reset_by_type,
        "resetByChannel": settings.reset_by_channel,
    }
    return ResetPolicy(None, None) if works and not any(blocks.values()) else read_reset_policy(blocks, key, channel)


def touch_record(record: SessionRecord, now: int, *, person: bool) -> SessionRecord:
    """The record after a turn that ended at `now`. Only people's messages keep a session from idling away."""
    if not person:
        return msgspec.structs.replace(record, updatedAt=now)
    return msgspec.structs.replace(record, updatedAt=now, lastInteractionAt=now)


def read_start_time(file: str) -> int | None:
    """When the session of a transcript file began, by its header; None if that cannot be found out."""
    return to_millis(read_header(file).timestamp) or None


def read_header(file: str) -> TranscriptHeader:
    """A transcript's first line; an empty header if it has none that can be read."""
    try:
        with open_plain_file(file, follow=True) as handle:
            first = handle.readline(_HEAD)
        header = ENTRY_DECODER.decode(first.removeprefix(b"\xef\xbb\xbf"))
    except (OSError, ValueError, RecursionError):
        return TranscriptHeader()
    return header if isinstance(header, TranscriptHeader) else TranscriptHeader()


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


# Where the chat is, when we are meant there, which folder it is about: true of the chat, hence every new session of the
# key keeps it.
_ROUTE = (
    "channel", "chatType", "groupId", "subject", "groupChannel", "space", "groupActivation",
    "lastChannel", "lastTo", "lastAccountId", "lastThreadId", "folder",
    "permissionMode",  # who wants to be asked is not to find that a night has ended it
)  # fmt: skip
_CHOICE = (
    "providerOverride", "modelOverride", "modelOverrideSource", "authProfileOverride", "authProfileOverrideSource",
)  # fmt: skip
_ASKED = (
    "thinkingLevel", "verboseLevel", "traceLevel", "reasoningLevel", "ttsAuto", "label", "displayName",
    "spawnedBy", "spawnedCwd", "parentSessionKey", "forkedFromParent", "spawnDepth", "subagentRole",
    "subagentControlScope",
)  # fmt: skip


class ResetPolicy(msgspec.Struct, frozen=True):
    """`at_hour` None: no daily boundary. `idle_minutes` None: idling never ends it. Both: whichever comes first."""

    at_hour: int | None
    idle_minutes: float | None


def read_reset_policy(settings: Mapping[str, Any], key: SessionKey, channel: str = "") -> ResetPolicy:
    """The rule for one session: resetByChannel, else resetByType, else reset, else daily at 4.

    `settings` is the config's `session` block, or only what stands under `session.reset`.
    """
    if key.rest.startswith(PRINTED):
        return ResetPolicy(None, None)  # a program resumes it by its id when it likes
    own = settings.get("reset")
    base = _block(own) if own is not None else {k: settings[k] for k in ("mode", "atHour") if k in settings}
    minutes = settings.get("idleMinutes")  # by itself it is the older way to ask for mode idle
    only = _block(settings.get("resetByChannel")).get(channel) if channel else None
    if isinstance(only, Mapping):
        rule, minutes = only, None
    else:
        rule = {**base, **_by_type(settings, key)}
    mode = rule.get("mode") or ("idle" if not rule and minutes is not None else "daily")
    minutes = rule.get("idleMinutes", minutes)
    if minutes is None and mode == "idle":
        minutes = IDLE_MINUTES
    hour = rule.get("atHour")
    return ResetPolicy(
        at_hour=None if mode == "idle" else hour if type(hour) is int and 0 <= hour <= 23 else AT_HOUR,
        idle_minutes=minutes if isinstance(minutes, int | float) and minutes > 0 else None,
    )


def find_stale_reason(
    record: SessionRecord, rule: ResetPolicy, now: int, tz: tzinfo | None = None
) -> StaleReason | None:
    """Which limit the session has passed at `now`, or None. `tz` None is the machine's zone.

    Only the start and the last message of a person count; `updatedAt` never does.
    """
    started = record.sessionStartedAt
    if rule.at_hour is not None and started is not None and started < find_day_boundary(now, rule.at_hour, tz):
        return "daily"
    last = record.lastInteractionAt if record.lastInteractionAt is not None else started
    if rule.idle_minutes is not None and last is not None and now > last + rule.idle_minutes * 60_000:
        return "idle"
    return None


def find_day_boundary(now: int, hour: int, tz: tzinfo | None = None) -> int:
    """The last time the clock on the wall showed `hour`:00, in milliseconds.

    An hour that the change to summer time skips counts as the moment of the change; of one that comes twice the
    first counts.
    """
    here = datetime.fromtimestamp(now / 1000, tz)
    at = here.replace(hour=hour, minute=0, second=0, microsecond=0, fold=0)
    if at.timestamp() * 1000 > now:
        at -= timedelta(days=1)  # on the wall, not 24 hours
    return int(at.timestamp() * 1000)


def roll_over(old: SessionRecord, key: SessionKey, now: int, session_id: str, *, asked: bool) -> SessionRecord:
    """The record of the session that follows `old`.

    `asked`: a person said /new or /reset; what they switched is kept. After a daily or idle limit only a model
    they chose themselves is.
    """
    kept = _ROUTE + (_CHOICE if _chosen(old) else ()) + (_ASKED if asked else ())
    family = (*(old.usageFamilySessionIds or ()), old.sessionId)
    return msgspec.structs.replace(
        SessionRecord.fresh(key, now, session_id),
        usageFamilyKey=old.usageFamilyKey or str(key),
        usageFamilySessionIds=tuple(dict.fromkeys(family)),
        **{name: value for name in kept if (value := getattr(old, name)) is not None},
    )


def _chosen(record: SessionRecord) -> bool:
    """Did a person choose the model? Rows older than the source field have none: then yes."""
    if record.modelOverride is None and record.providerOverride is None and record.authProfileOverride is None:
        return False
    return record.modelOverrideSource in (None, "user")


def _by_type(settings: Mapping[str, Any], key: SessionKey) -> Mapping[str, Any]:
    rules = _block(settings.get("resetByType"))
    segments = key.rest.split(":")
    if "thread" in segments or "topic" in segments:
        return _block(rules.get("thread"))
    if key.kind == "group":
        return _block(rules.get("group"))
    return _block(rules.get("direct")) or _block(rules.get("dm"))


def _block(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
