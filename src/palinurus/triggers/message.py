"""What triggers say as messages: which session, where the answer goes, what the model is told.

A heartbeat's answer goes nowhere, to the person's last place, or to a chat that the config names. A direct chat may be
closed to it (`directPolicy`); then the turn runs all the same, and nothing is sent.
"""

from __future__ import annotations

import re

import msgspec

from palinurus.config.sections.schedule import HeartbeatSettings, HeartbeatVisibility
from palinurus.config.settings import Settings
from palinurus.core.schedule.fire import GRACE_MS
from palinurus.core.schedule.job import CronDelivery, CronJob
from palinurus.core.types.inbound import Inbound, Sender, Target, TurnOptions
from palinurus.core.types.keys import SessionKey, escape_key_part, parse_session_key
from palinurus.errors import BadRequest
from palinurus.patterns import compile_late
from palinurus.sessions.record import SessionRecord
from palinurus.triggers.ports import TriggerPort

# How platforms write the id of a chat that is no direct one.
_GROUP = compile_late(r"-\d+|#.+|(?:group|channel|room|thread|topic):.+|.+@g\.us", re.IGNORECASE)
_KINDS = ("group", "channel", "room")


class HeartbeatTarget(msgspec.Struct, frozen=True):
    """`why` says what kept the answer from going anywhere, as clients of OpenClaw know it; "" if nothing did. `seen`:
    what people may see there."""

    destination: ReplyDestination
    why: str = ""
    seen: HeartbeatVisibility = HeartbeatVisibility()

    @property
    def useless(self) -> bool:
        """Is a beat without any use, because nobody may see anything of it?"""
        return not (self.seen.ok or self.seen.alerts or self.seen.indicator)


async def resolve_target(port: TriggerPort, own: HeartbeatSettings, key: SessionKey) -> HeartbeatTarget:
    """For a beat of the session `key`."""
    nowhere = ReplyDestination(Target("heartbeat", str(key)), False)
    if own.target == "none":
        return HeartbeatTarget(nowhere, "target-none")
    row = await port.store.session(str(key))
    record = SessionRecord.decode(row.data) if row is not None else None
    last = record.lastChannel if record is not None else None
    channel = (last or "") if own.target == "last" else own.target
    known = record is not None and channel == last
    to = own.to or (record.lastTo or "" if record is not None and known else "")
    account = own.account or (record.lastAccountId if record is not None and known else "") or "default"
    if not to or channel not in port.channels:
        return HeartbeatTarget(nowhere, "no-target")
    seen = next(
        (own.seen[place] for place in (f"{channel}/{account}", channel, "") if place in own.seen), HeartbeatVisibility()
    )
    if not (seen.ok or seen.alerts):
        return HeartbeatTarget(nowhere, "alerts-disabled", seen)
    if own.direct == "block" and await _direct(port, key, Target(channel, to), own=not own.to and known):
        return HeartbeatTarget(nowhere, "dm-blocked")
    return HeartbeatTarget(ReplyDestination(Target(channel, to, account), True), "", seen)


async def _direct(port: TriggerPort, key: SessionKey, target: Target, *, own: bool) -> bool:
    """`own`: it is the session's own place, so the session's kind is the chat's."""
    if own and key.kind == "group":
        return False
    if _GROUP.fullmatch(target.to):
        return False
    names = (f"agent:{key.agent}:{target.channel}:{kind}:{escape_key_part(target.to)}" for kind in _KINDS)
    return not any([await port.store.session(name) is not None for name in names])


_NOWHERE = "cron"


class ReplyDestination(msgspec.Struct, frozen=True):
    """Where replies go; `push` False: nowhere, whoever looks at the session sees them."""

    target: Target
    push: bool


def make_main_key(settings: Settings, agent: str) -> SessionKey:
    """An agent's main session."""
    return SessionKey(agent, settings.session.main_key)


def resolve_job_session(job: CronJob, due: int, settings: Settings) -> SessionKey:
    """The session a fire runs in. Raises BadRequest."""
    if job.session_target == "main":
        return make_main_key(settings, job.agent_id)
    if job.session_target == "isolated":
        return SessionKey(job.agent_id, f"cron:{job.id}:run:{due}")
    found = parse_session_key(job.session_target.removeprefix("session:"), job.agent_id)
    if found is None:
        raise BadRequest(f"not a session key: {job.session_target[:80]}")
    return found


async def find_last_destination(port: TriggerPort, key: SessionKey) -> ReplyDestination:
    """Where the session's person wrote last, if replies can go there."""
    row = await port.store.session(str(key))
    record = SessionRecord.decode(row.data) if row is not None else None
    if record is None or record.lastChannel not in port.channels:
        return ReplyDestination(Target(_NOWHERE, str(key)), False)
    return ReplyDestination(
        Target(record.lastChannel or "", record.lastTo or "", record.lastAccountId or "default"), True
    )


async def resolve_job_destination(
    port: TriggerPort, delivery: CronDelivery, key: SessionKey, agent: str
) -> ReplyDestination:
    """Where a job's answer goes. Raises BadRequest for a channel that is not there."""
    if delivery.mode == "announce" and delivery.channel and delivery.channel != "last":
        if delivery.channel not in port.channels:
            raise BadRequest(
                f"there is no channel {delivery.channel[:40]!r} to announce it on",
                fix="`pal channels` lists those that are set up",
            )
        account = delivery.account_id or "default"
        return ReplyDestination(Target(delivery.channel, delivery.to, account, delivery.thread_id), True)
    if delivery.mode == "announce" or key.kind != "cron":
        own = key if key.kind != "cron" else make_main_key(port.settings, agent)
        return await find_last_destination(port, own)
    return ReplyDestination(Target(_NOWHERE, str(key)), False)


def make_fire_message(
    job: CronJob, due: int, now: int, key: SessionKey, *, destination: ReplyDestination, manual: bool = False
) -> Inbound:
    """The message of one fire. Its event is the slot: however often it is handed in, it is one message. Of a `manual`
    one the slot is claimed already."""
    payload = job.payload
    late = f" It was due {_span(now - due)} ago." if now - due > GRACE_MS else ""
    if payload.kind == "systemEvent":
        text = (
            f"System: {payload.words}\n\n[cron:{job.id} {job.name}] This was scheduled for now.{late} Tell the person "
            "what they wanted to hear, or do what is to be done."
        )
    else:
        text = f"[cron:{job.id} {job.name}] {payload.words}\n\nThis was scheduled; nobody waits for questions.{late}"
        if destination.push and key.kind == "cron":
            text += " Your final answer is sent to the person as it is; NO_REPLY sends nothing."
    options = TurnOptions(trigger="cron", queue="followup", slot=None if manual else (job.id, due))
    if key.kind == "cron" or payload.kind == "agentTurn":
        options = msgspec.structs.replace(
            options,
            model=payload.model,
            thinking=payload.thinking,
            timeout_seconds=payload.timeout_seconds or None,
            tools_allow=tuple(payload.tools_allow),
            prompt_mode="minimal" if payload.light_context else None,
        )
    sender = Sender("cron", job.name, owner=True, allowed=True)
    return Inbound(
        destination.target, sender, f"cron:{job.id}:{due}", text, at=now, session=str(key), agent=key.agent,
        options=options, system=True, push=destination.push, source=job.source,
        shared=job.shared,
    )  # fmt: skip


def _span(ms: int) -> str:
    minutes = ms // 60_000
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h" if minutes < 2880 else f"{minutes // 1440} days"
