"""When a session starts anew, and what the new one keeps of the old. Pure: time and zone are handed in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, tzinfo
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from palinurus.core.types.keys import SessionKey
from palinurus.sessions.record import SessionRecord

StaleReason: TypeAlias = Literal["daily", "idle"]

AT_HOUR = 4
IDLE_MINUTES = 60  # of mode idle without a number

# Where the chat is, and when we are meant there: true of the chat, hence every new session of the key keeps it.
_ROUTE = (
    "channel", "chatType", "groupId", "subject", "groupChannel", "space", "groupActivation",
    "lastChannel", "lastTo", "lastAccountId", "lastThreadId",
)  # fmt: skip
_CHOICE = (
    "providerOverride", "modelOverride", "modelOverrideSource", "authProfileOverride", "authProfileOverrideSource",
)  # fmt: skip
_ASKED = (
    "thinkingLevel", "verboseLevel", "traceLevel", "reasoningLevel", "ttsAuto", "label", "displayName",
    "spawnedBy", "spawnedCwd", "parentSessionKey", "forkedFromParent", "spawnDepth", "subagentRole",
    "subagentControlScope",
)  # fmt: skip


class ResetPolicy(NamedTuple):
    """`at_hour` None: no daily boundary. `idle_minutes` None: idling never ends it. Both: whichever comes first."""

    at_hour: int | None
    idle_minutes: float | None


def read_reset_policy(settings: Mapping[str, Any], key: SessionKey, channel: str = "") -> ResetPolicy:
    """The rule for one session: resetByChannel, else resetByType, else reset, else daily at 4.

    `settings` is the config's `session` block, or only what stands under `session.reset`.
    """
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
