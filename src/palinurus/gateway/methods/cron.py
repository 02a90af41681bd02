"""cron.*, heartbeats, and telling a session something: jobs as clients see and change them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from itertools import islice
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from palinurus.core.schedule.fire import unfold_history
from palinurus.gateway import rpc
from palinurus.gateway.clients import GatewayClients
from palinurus.gateway.context import MainSessionParams, cut_page, require
from palinurus.gateway.rpc import GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty, NoParams
from palinurus.tools.program.cron import PERSON, CronJobMaker, SchedulerPort


class CronJobParams(MethodParams, frozen=True):
    id: NonEmpty | None = None
    job_id: NonEmpty | None = None

    @property
    def name(self) -> str:
        """Raises MethodError."""
        if not (self.id or self.job_id):
            raise MethodError("id required")
        return self.id or self.job_id or ""


class CronListParams(MethodParams, frozen=True):
    include_disabled: bool = False
    limit: Annotated[int, Meta(ge=1, le=500)] = 200
    offset: Annotated[int, Meta(ge=0)] = 0
    query: str | None = None
    enabled: Literal["all", "enabled", "disabled"] | None = None
    schedule_kind: Literal["all", "at", "every", "cron"] | None = None
    last_run_status: Literal["all", "ok", "error", "skipped", "unknown"] | None = None
    agent_id: NonEmpty | None = None
    sort_by: str | None = None
    sort_dir: str | None = None


class CronUpdateParams(CronJobParams, frozen=True):
    patch: dict[str, Any] | None = None


class CronRunParams(CronJobParams, frozen=True):
    mode: Literal["due", "force"] = "force"


class CronHistoryParams(CronJobParams, frozen=True):
    scope: Literal["job", "all"] | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    offset: Annotated[int, Meta(ge=0)] = 0
    run_id: NonEmpty | None = None
    status: str | None = None
    statuses: tuple[str, ...] = ()
    query: str | None = None
    sort_dir: str | None = None
    delivery_status: str | None = None
    slots: bool = False  # one entry for each missed time instead of one for a row of them


class CronAddParams(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A job; its parts are judged by who keeps jobs."""

    schedule: dict[str, Any]
    payload: dict[str, Any]
    name: Annotated[str, Meta(max_length=512)] | None = None
    description: Annotated[str, Meta(max_length=10_000)] | None = None
    session_target: str | None = None
    session_key: str | None = None
    wake_mode: str | None = None
    delivery: dict[str, Any] | None = None
    enabled: bool | None = None
    delete_after_run: bool | None = None
    agent_id: str | None = None
    misfire: str | None = None
    misfire_window_ms: int | None = None


class WakeParams(MainSessionParams, frozen=True, kw_only=True):
    mode: Literal["now", "next-heartbeat"]
    text: NonEmpty


class SystemEventParams(MethodParams, frozen=True):
    text: NonEmpty
    session_key: NonEmpty | None = None
    reason: str | None = None


class HeartbeatSwitchParams(MethodParams, frozen=True):
    enabled: bool


def attach_schedules(gateway: GatewayClients, schedules: SchedulerPort) -> Callable[[], None]:
    """Send changes of jobs and heartbeats to clients. Returns the function that ends it."""
    return schedules.follow(lambda event, payload: gateway.broadcast(event, payload))


def _schedules(call: MethodCall) -> SchedulerPort:
    return require(call.program.schedules, "there are no jobs here")


async def get_cron_status(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """How many there are, and when the next is due."""
    return _schedules(call).status()


async def list_cron_jobs(call: MethodCall, asked: CronListParams) -> dict[str, Any]:
    """The next one first."""
    found = _schedules(call).jobs(disabled=asked.include_disabled or asked.enabled in ("all", "disabled"))
    if asked.enabled == "disabled":
        found = [job for job in found if not job["enabled"]]
    if asked.query:
        found = [job for job in found if asked.query.lower() in f"{job['name']} {job['id']}".lower()]
    found = [job for job in found if _wanted(job, asked)]
    page, after = cut_page(found, asked.offset, asked.limit)
    made = {"jobs": page, "total": len(found), "offset": asked.offset, "limit": asked.limit}
    # Pages of one revision belong together: a client that reads several begins anew when it changes.
    revision = f"{zlib.crc32(repr([(job['id'], job.get('updatedAtMs')) for job in found]).encode()):08x}"
    more = {"hasMore": after is not None, "nextOffset": after, "snapshotRevision": revision}
    return {**made, **more, "deliveryPreviews": {}}


def _wanted(job: dict[str, Any], asked: CronListParams) -> bool:
    kinds = (None, "all", job["schedule"]["kind"])
    last = job.get("state", {}).get("lastRunStatus") or "unknown"
    return (
        asked.schedule_kind in kinds
        and asked.last_run_status in (None, "all", last)
        and asked.agent_id in (None, job.get("agentId"))
    )


async def get_cron_job(call: MethodCall, asked: CronJobParams) -> dict[str, Any]:
    """One."""
    return _schedules(call).job(asked.name)


async def add_cron_job(call: MethodCall, asked: CronAddParams) -> dict[str, Any]:
    """The job as it was made."""
    names = zip(asked.__struct_fields__, asked.__struct_encode_fields__, strict=True)
    job = {wire: value for own, wire in names if (value := getattr(asked, own)) is not None}
    maker = CronJobMaker(session=job.pop("sessionKey", ""), agent=call.program.settings.default_agent)
    return await _schedules(call).add(job, maker)


async def update_cron_job(call: MethodCall, asked: CronUpdateParams) -> dict[str, Any]:
    """The job as it is now."""
    return await _schedules(call).update(asked.name, asked.patch or {})


async def remove_cron_job(call: MethodCall, asked: CronJobParams) -> dict[str, Any]:
    """Its runs are remembered for a while."""
    return {"ok": True, "removed": await _schedules(call).remove(asked.name)}


async def run_cron_job(call: MethodCall, asked: CronRunParams) -> dict[str, Any]:
    """Start it; what becomes of it is told as event and in cron.runs."""
    return await _schedules(call).run(asked.name, force=asked.mode == "force")


async def list_cron_runs(call: MethodCall, asked: CronHistoryParams) -> dict[str, Any]:
    """The newest first."""
    ident = "" if asked.scope == "all" else asked.id or asked.job_id or ""
    wanted = {*asked.statuses, *([asked.status] if asked.status not in (None, "all") else [])}
    found = [e for e in await _schedules(call).runs(ident, 10_000) if not wanted or e["status"] in wanted]
    total = sum(e["missed"]["count"] if asked.slots and "missed" in e else 1 for e in found)
    lines = unfold_history(found) if asked.slots else iter(found)
    if asked.run_id is not None:
        lines = iter([e for e in lines if e["runId"] == asked.run_id])
    page = list(islice(lines, asked.offset, asked.offset + asked.limit))
    after, more = asked.offset + len(page), next(lines, None) is not None
    total = total if more and asked.run_id is None else after
    made = {"entries": page, "total": total, "offset": asked.offset, "limit": asked.limit, "hasMore": more}
    return {**made, "nextOffset": after if more else None}


async def wake_session(call: MethodCall, asked: WakeParams) -> dict[str, Any]:
    """Tell a session something: now, as a turn of its own, or with its next turn."""
    maker = CronJobMaker(source=f"client {call.client.info.id}"[:80], shared=True)
    maker = PERSON if call.client.may(rpc.ADMIN) else maker
    key = str(asked.resolve(call))
    await _schedules(call).wake(asked.text, now=asked.mode == "now", session=key, maker=maker)
    return {"ok": True}


async def queue_system_event(call: MethodCall, asked: SystemEventParams) -> dict[str, Any]:
    """Tell a session something with its next turn."""
    key = call.context.reader.key(asked.session_key or call.program.settings.session.main_key)
    await _schedules(call).wake(asked.text, now=False, session=str(key))
    return {"ok": True}


async def get_last_heartbeat(call: MethodCall, asked: NoParams) -> dict[str, Any] | None:
    """The last one that ran, with what it cost."""
    return _schedules(call).last_heartbeat()


async def set_heartbeats(call: MethodCall, asked: HeartbeatSwitchParams) -> dict[str, Any]:
    """On or off, for good: the next start knows it too."""
    await _schedules(call).set_heartbeats(asked.enabled)
    return {"ok": True, "enabled": asked.enabled}


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("cron.status", rpc.READ, NoParams, get_cron_status),
    GatewayMethod("cron.list", rpc.READ, CronListParams, list_cron_jobs),
    GatewayMethod("cron.get", rpc.READ, CronJobParams, get_cron_job),
    GatewayMethod("cron.runs", rpc.READ, CronHistoryParams, list_cron_runs),
    GatewayMethod("cron.add", rpc.ADMIN, CronAddParams, add_cron_job),
    GatewayMethod("cron.update", rpc.ADMIN, CronUpdateParams, update_cron_job),
    GatewayMethod("cron.remove", rpc.ADMIN, CronJobParams, remove_cron_job),
    GatewayMethod("cron.run", rpc.ADMIN, CronRunParams, run_cron_job),
    GatewayMethod("wake", rpc.WRITE, WakeParams, wake_session),
    GatewayMethod("system-event", rpc.ADMIN, SystemEventParams, queue_system_event),
    GatewayMethod("last-heartbeat", rpc.READ, NoParams, get_last_heartbeat),
    GatewayMethod("set-heartbeats", rpc.ADMIN, HeartbeatSwitchParams, set_heartbeats),
)
