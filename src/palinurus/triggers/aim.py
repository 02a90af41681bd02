"""Where a heartbeat's answer goes: nowhere, to the person's last place, or to a chat that the config names. A direct
chat may be closed to it (`directPolicy`); then the turn runs all the same, and nothing is sent.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from palinurus.config.heartbeat import HeartbeatSettings
from palinurus.config.visible import HeartbeatVisibility
from palinurus.core.types.inbound import Target
from palinurus.core.types.keys import SessionKey, escape_key_part
from palinurus.sessions.record import SessionRecord
from palinurus.triggers.message import ReplyDestination
from palinurus.triggers.ports import TriggerPort

# How platforms write the id of a chat that is no direct one.
_GROUP = re.compile(r"-\d+|#.+|(?:group|channel|room|thread|topic):.+|.+@g\.us", re.IGNORECASE)
_KINDS = ("group", "channel", "room")


class HeartbeatTarget(NamedTuple):
    """`why` says what kept the answer from going anywhere, as clients of OpenClaw know it; "" if nothing did. `seen`:
    what people may see there."""

    way: ReplyDestination
    why: str = ""
    seen: HeartbeatVisibility = HeartbeatVisibility()

    @property
    def useless(self) -> bool:
        """Is a beat without any use, because nobody may see anything of it?"""
        return not (self.seen.ok or self.seen.alerts or self.seen.indicator)


async def resolve_target(doors: TriggerPort, own: HeartbeatSettings, key: SessionKey) -> HeartbeatTarget:
    """For a beat of the session `key`."""
    nowhere = ReplyDestination(Target("heartbeat", str(key)), False)
    if own.target == "none":
        return HeartbeatTarget(nowhere, "target-none")
    row = await doors.store.session(str(key))
    record = SessionRecord.decode(row.data) if row is not None else None
    last = record.lastChannel if record is not None else None
    channel = (last or "") if own.target == "last" else own.target
    known = record is not None and channel == last
    to = own.to or (record.lastTo or "" if record is not None and known else "")
    account = own.account or (record.lastAccountId if record is not None and known else "") or "default"
    if not to or channel not in doors.channels():
        return HeartbeatTarget(nowhere, "no-target")
    seen = next(
        (own.seen[place] for place in (f"{channel}/{account}", channel, "") if place in own.seen), HeartbeatVisibility()
    )
    if not (seen.ok or seen.alerts):
        return HeartbeatTarget(nowhere, "alerts-disabled", seen)
    if own.direct == "block" and await _direct(doors, key, Target(channel, to), own=not own.to and known):
        return HeartbeatTarget(nowhere, "dm-blocked")
    return HeartbeatTarget(ReplyDestination(Target(channel, to, account), True), "", seen)


async def _direct(doors: TriggerPort, key: SessionKey, target: Target, *, own: bool) -> bool:
    """`own`: it is the session's own place, so the session's kind is the chat's."""
    if own and key.kind == "group":
        return False
    if _GROUP.fullmatch(target.to):
        return False
    names = (f"agent:{key.agent}:{target.channel}:{kind}:{escape_key_part(target.to)}" for kind in _KINDS)
    return not any([await doors.store.session(name) is not None for name in names])
