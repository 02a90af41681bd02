"""A scheduled job: what is to happen, when, in which session, and who is told. OpenClaw's shape on the wire. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.core.durations import parse_duration
from palinurus.core.policy.spoken import AGREED
from palinurus.core.policy.taint import write_sources
from palinurus.core.schedule import fire
from palinurus.core.text import to_datetime

NAME, TEXT = 200, 20_000  # characters

DeliveryMode: TypeAlias = Literal["none", "announce", "webhook"]
Wake: TypeAlias = Literal["now", "next-heartbeat"]


class CronPayload(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """systemEvent: `text` is told to a session. agentTurn: `message` is asked; the rest is for that turn only."""

    kind: Literal["systemEvent", "agentTurn"]
    text: str = ""
    message: str = ""
    model: str = ""
    thinking: str = ""
    timeout_seconds: float = 0.0  # 0 = the agent's
    tools_allow: tuple[str, ...] = ()  # () = all the agent has
    light_context: bool = False

    @property
    def words(self) -> str:
        return self.text or self.message


class CronDelivery(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who gets the answer. announce without a channel: where the person wrote last. webhook: `to` is a URL."""

    mode: DeliveryMode = "none"
    channel: str = ""
    to: str = ""
    account_id: str = ""
    thread_id: str = ""


class CronJob(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """As a person made it. Times in milliseconds. `source`: whose words it may hold, if not the owner's (taint).
    `shared`: a turn that others read along made it, so its own are such turns, too (core/policy/audience.py)."""

    id: str
    name: str
    schedule: fire.Schedule
    payload: CronPayload
    session_target: str  # main, isolated, session:<key>
    agent_id: str
    created_at_ms: int
    updated_at_ms: int
    enabled: bool = True
    wake_mode: Wake = "now"
    delivery: CronDelivery = CronDelivery()
    delete_after_run: bool = False
    description: str = ""
    misfire: fire.Misfire = "once"
    misfire_window_ms: int | None = None  # None: a day; for a job that runs once: for ever
    source: str = ""
    shared: bool = False

    @property
    def window(self) -> int | None:
        once = isinstance(self.schedule, fire.AtSchedule)
        return self.misfire_window_ms if self.misfire_window_ms is not None else None if once else fire.DAY_MS


class CronJobState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What has become of it so far. `cursor`: every due time up to here is dealt with. `pending`: the fire that is
    being started; found at a start, it is started again under the same name."""

    cursor: int
    pending: int = 0
    manual: bool = False  # the pending or running fire was asked for by hand
    item: str = ""  # the inbox id of the running fire
    running_at_ms: int = 0  # its due time
    last_run_at_ms: int = 0
    last_run_status: str = ""  # ok, error, skipped
    last_error: str = ""
    last_duration_ms: int = 0
    consecutive_errors: int = 0
    alerted_at_ms: int = 0  # when somebody was last told that it fails
    skipped: int = 0


_FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(CronJob))
_OURS = frozenset(("id", "createdAtMs", "updatedAtMs", "state", "source", "shared"))


def make_job(asked: dict[str, Any], ident: str, now: int, agent: str, tz: str, source: str = "") -> CronJob:
    """The job somebody asks for, with what they left out. Raises ValueError with what is wrong."""
    payload = _payload(asked)
    turn = payload.get("kind") == "agentTurn"
    target = str(asked.get("sessionTarget") or ("isolated" if turn else "main"))
    schedule = parse_schedule(asked.get("schedule"), now, tz)
    once = isinstance(schedule, fire.AtSchedule)
    name = str(asked.get("name") or payload.get("message") or payload.get("text") or "").strip()
    body = {
        **{key: value for key, value in asked.items() if key in _FIELDS - _OURS and value is not None},
        "id": ident,
        "name": " ".join(name.split())[:60] if not asked.get("name") else name[:NAME],
        "schedule": msgspec.to_builtins(schedule),
        "payload": payload,
        "sessionTarget": target,
        "agentId": str(asked.get("agentId") or agent),
        "createdAtMs": now,
        "updatedAtMs": now,
        "deleteAfterRun": asked.get("deleteAfterRun") if asked.get("deleteAfterRun") is not None else once,
        "delivery": asked.get("delivery") or {"mode": "announce" if target == "isolated" else "none"},
        "source": source,
    }
    job = _read(body)
    if once and isinstance(job.schedule, fire.AtSchedule) and job.schedule.at < now - 60_000:
        raise ValueError("that time is over")
    return check_job(job, tz)


def patch_job(job: CronJob, patch: dict[str, Any], now: int, tz: str, source: str = "") -> CronJob:
    """The job with some things changed, by words of this source. Raises ValueError."""
    unknown = sorted(set(patch) - _FIELDS - {"state"})
    if unknown:
        raise ValueError(f"a job has no {', '.join(unknown)[:100]}")
    body: dict[str, Any] = msgspec.to_builtins(job)
    for key, value in patch.items():
        if key in _OURS:
            continue
        if key == "schedule":
            value = msgspec.to_builtins(parse_schedule(value, now, tz))
        elif key in ("payload", "delivery") and isinstance(value, dict):
            same = value.get("kind", body.get(key, {}).get("kind")) == body.get(key, {}).get("kind")
            value = {**(body.get(key, {}) if same else {}), **value}
        body[key] = value
    made = _read({**{k: v for k, v in body.items() if v is not None}, "updatedAtMs": now})
    if source:  # what the owner agreed to is the words, and the last ones that were agreed to
        whole = made.payload.words != job.payload.words
        parts = [one for one in (*job.source.split("\n"), *source.split("\n")) if one != AGREED]
        agreed = AGREED in (source if whole else job.source).split("\n")
        made = msgspec.structs.replace(made, source=write_sources((AGREED if agreed else "", *parts)))
    return check_job(made, tz)


def check_job(job: CronJob, tz: str) -> CronJob:
    """The same job. Raises ValueError for what cannot be."""
    fire.check_schedule(job.schedule, tz)
    if not job.payload.words.strip():
        raise ValueError("the payload says nothing: text for a systemEvent, message for an agentTurn")
    if len(job.payload.words) > TEXT:
        raise ValueError(f"the payload is longer than {TEXT} characters")
    if job.payload.kind == "systemEvent" and job.session_target == "isolated":
        raise ValueError("a systemEvent is told to a session that is there: sessionTarget main or session:<key>")
    if job.session_target not in ("main", "isolated") and not job.session_target.startswith("session:"):
        raise ValueError("sessionTarget is main, isolated, current or session:<key>")
    if job.delivery.mode == "webhook" and job.delivery.to and not job.delivery.to.startswith(("http://", "https://")):
        raise ValueError("delivery.to of a webhook is an http(s) address")
    return job


def parse_schedule(asked: Any, now: int, tz: str) -> fire.Schedule:
    """Also as people write it: {at: "2026-02-01T09:00"}, {every: "30m"}, {cron: "0 9 * * *"}. Raises ValueError."""
    if not isinstance(asked, dict):
        raise ValueError("schedule is an object with kind at, every or cron")
    kind = asked.get("kind") or next((k for k in ("at", "every", "cron") if k in asked), "")
    if "atMs" in asked or kind == "at":
        return fire.AtSchedule(parse_moment(asked.get("at", asked.get("atMs")), now, tz))
    if kind == "every" or "everyMs" in asked:
        every, anchor = _whole(asked.get("everyMs")), _whole(asked.get("anchorMs"))
        if every is None and isinstance(words := asked.get("every"), str) and (seconds := parse_duration(words, "m")):
            every = _whole(seconds * 1000)
        if every is None:
            raise ValueError('everyMs is a number of milliseconds; or write every: "30m"')
        return fire.EverySchedule(every, now if anchor is None else anchor)
    if kind == "cron":
        expr = asked.get("expr") or asked.get("cron")
        if not isinstance(expr, str):
            raise ValueError("expr is a cron line such as 0 9 * * 1-5")
        return fire.CronSchedule(expr.strip(), str(asked.get("tz") or tz), _whole(asked.get("staggerMs")) or 0)
    raise ValueError("schedule.kind is at, every or cron")


def parse_moment(written: Any, now: int, tz: str) -> int:
    """Milliseconds, from a number, digits or ISO 8601 (without an offset: the owner's zone). Raises ValueError."""
    if (number := _whole(written)) is not None:
        return number
    text = str(written or "").strip()
    if text.isdecimal():
        return int(text)
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a time; write it as 2026-02-01T09:00") from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=fire.find_time_zone(tz))
    return round((found - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)


def _whole(value: Any) -> int | None:
    """None for what is no number, or none that a clock could show."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and -1e15 < value < 1e15
    return int(value) if number else None


def to_client_job(job: CronJob, state: CronJobState, due: int | None) -> dict[str, Any]:
    """As clients see it."""
    body: dict[str, Any] = msgspec.to_builtins(job)
    own = {key: value for key, value in msgspec.to_builtins(state).items() if key.endswith(("Ms", "Status", "Error"))}
    if due is not None:
        own["nextRunAtMs"] = due
    if state.consecutive_errors:
        own["consecutiveErrors"] = state.consecutive_errors
    whole = {"enabled": job.enabled, "wakeMode": job.wake_mode, "delivery": msgspec.to_builtins(job.delivery)}
    whole["delivery"].setdefault("mode", job.delivery.mode)
    if isinstance(job.schedule, fire.AtSchedule):
        iso = to_datetime(job.schedule.at).isoformat(timespec="seconds")
        body["schedule"] = {"kind": "at", "at": iso.replace("+00:00", "Z")}
    return {**body, **whole, "state": own}


def _payload(asked: dict[str, Any]) -> dict[str, Any]:
    """With its kind, where only one can be meant."""
    payload = asked.get("payload")
    if not isinstance(payload, dict):
        raise ValueError("payload is an object with kind systemEvent or agentTurn")
    kind = payload.get("kind") or ("agentTurn" if payload.get("message") else "systemEvent")
    if kind not in ("systemEvent", "agentTurn"):
        raise ValueError("payload.kind is systemEvent or agentTurn")
    return {**{key: value for key, value in payload.items() if value is not None}, "kind": kind}


def _read(body: dict[str, Any]) -> CronJob:
    try:
        return msgspec.convert(body, CronJob)
    except msgspec.ValidationError as exc:
        raise ValueError(str(exc)) from None
