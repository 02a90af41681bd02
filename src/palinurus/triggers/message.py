"""Jobs and heartbeats as messages: which session, where the answer goes, what the model is told."""

from __future__ import annotations

from typing import Any, NamedTuple

from palinurus.config.settings import Settings
from palinurus.core.schedule.fire import GRACE_MS
from palinurus.core.schedule.job import CronDelivery, CronJob
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.errors import BadRequest
from palinurus.sessions.record import SessionRecord
from palinurus.triggers.ports import TriggerPort

TRIGGER = "trigger"  # the option that marks a turn nobody wrote for; see agent/trigger.py
_NOWHERE = "cron"


class ReplyDestination(NamedTuple):
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


async def find_last_destination(doors: TriggerPort, key: SessionKey) -> ReplyDestination:
    """Where the session's person wrote last, if replies can go there."""
    row = await doors.store.session(str(key))
    record = SessionRecord.decode(row.data) if row is not None else None
    if record is None or record.lastChannel not in doors.channels():
        return ReplyDestination(Target(_NOWHERE, str(key)), False)
    return ReplyDestination(
        Target(record.lastChannel or "", record.lastTo or "", record.lastAccountId or "default"), True
    )


async def resolve_job_destination(
    doors: TriggerPort, delivery: CronDelivery, key: SessionKey, agent: str
) -> ReplyDestination:
    """Where a job's answer goes. Raises BadRequest for a channel that is not there."""
    if delivery.mode == "announce" and delivery.channel and delivery.channel != "last":
        if delivery.channel not in doors.channels():
            raise BadRequest(f"there is no channel {delivery.channel[:40]!r} to announce it on")
        account = delivery.account_id or "default"
        return ReplyDestination(Target(delivery.channel, delivery.to, account, delivery.thread_id), True)
    if delivery.mode == "announce" or key.kind != "cron":
        own = key if key.kind != "cron" else make_main_key(doors.settings, agent)
        return await find_last_destination(doors, own)
    return ReplyDestination(Target(_NOWHERE, str(key)), False)


def make_fire_message(job: CronJob, due: int, now: int, key: SessionKey, way: ReplyDestination) -> Inbound:
    """The message of one fire. Its event is the slot: however often it is handed in, it is one message."""
    payload = job.payload
    late = f" It was due {_span(now - due)} ago." if now - due > GRACE_MS else ""
    if payload.kind == "systemEvent":
        text = (
            f"System: {payload.words}\n\n[cron:{job.id} {job.name}] This was scheduled for now.{late} Tell the person "
            "what they wanted to hear, or do what is to be done."
        )
    else:
        text = f"[cron:{job.id} {job.name}] {payload.words}\n\nThis was scheduled; nobody waits for questions.{late}"
        if way.push and key.kind == "cron":
            text += " Your final answer is sent to the person as it is; NO_REPLY sends nothing."
    options: dict[str, Any] = {TRIGGER: "cron"}
    if key.kind == "cron" or payload.kind == "agentTurn":
        options |= {
            name: value
            for name, value in (
                ("model", payload.model),
                ("thinking", payload.thinking),
                ("timeoutSeconds", payload.timeout_seconds),
                ("toolsAllow", list(payload.tools_allow)),
                ("promptMode", "minimal" if payload.light_context else ""),
            )
            if value
        }
    return Inbound(
        way.target,
        Sender("cron", job.name, owner=True, allowed=True),
        f"cron:{job.id}:{due}",
        text,
        now,
        session=str(key),
        agent=key.agent,
        options={**options, "queue": "followup"},
        system=True,
        push=way.push,
        source=job.source,
    )


def _span(ms: int) -> str:
    minutes = ms // 60_000
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h" if minutes < 2880 else f"{minutes // 1440} days"
