"""cron.*, heartbeats, and telling a session something: jobs as clients see and change them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from palinurus.core.schedule.missed import unfold_history
from palinurus.errors import PalinurusError
from palinurus.gateway.rpc import ADMIN, READ, WRITE, Call, Face, Method, Params, RpcError, Word
from palinurus.gateway.scene import scene
from palinurus.tools.cron import Maker, Schedules


class Nothing(Params, frozen=True):
    pass


class Which(Params, frozen=True):
    id: Word | None = None
    job_id: Word | None = None

    @property
    def name(self) -> str:
        """Raises RpcError."""
        if not (self.id or self.job_id):
            raise RpcError("id required")
        return self.id or self.job_id or ""


class List(Params, frozen=True):
    include_disabled: bool = False
    limit: Annotated[int, Meta(ge=1, le=500)] = 200
    offset: Annotated[int, Meta(ge=0)] = 0
    query: str | None = None
    enabled: Literal["all", "enabled", "disabled"] | None = None
    schedule_kind: Literal["all", "at", "every", "cron"] | None = None
    last_run_status: Literal["all", "ok", "error", "skipped", "unknown"] | None = None
    agent_id: Word | None = None
    sort_by: str | None = None
    sort_dir: str | None = None


class Update(Which, frozen=True):
    patch: dict[str, Any] | None = None


class Run(Which, frozen=True):
    mode: Literal["due", "force"] = "force"


class Runs(Params, frozen=True):
    id: Word | None = None
    job_id: Word | None = None
    scope: Literal["job", "all"] | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    offset: Annotated[int, Meta(ge=0)] = 0
    run_id: Word | None = None
    status: str | None = None
    statuses: tuple[str, ...] = ()
    query: str | None = None
    sort_dir: str | None = None
    delivery_status: str | None = None
    slots: bool = False  # one entry for each missed time instead of one for a row of them


class Add(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A job; its parts are judged by who keeps jobs."""

    schedule: dict[str, Any]
    payload: dict[str, Any]
    name: str | None = None
    description: str | None = None
    session_target: str | None = None
    session_key: str | None = None
    wake_mode: str | None = None
    delivery: dict[str, Any] | None = None
    enabled: bool | None = None
    delete_after_run: bool | None = None
    agent_id: str | None = None
    misfire: str | None = None
    misfire_window_ms: int | None = None


class Wake(Params, frozen=True):
    mode: Literal["now", "next-heartbeat"]
    text: Word
    session_key: Word | None = None
    agent_id: Word | None = None


class Told(Params, frozen=True):
    text: Word
    session_key: Word | None = None
    reason: str | None = None


class Beats(Params, frozen=True):
    enabled: bool


def attach(face: Face, schedules: Schedules) -> Callable[[], None]:
    """Send changes of jobs and heartbeats to clients. Returns the function that ends it."""
    return schedules.follow(lambda event, payload: face.broadcast(event, payload))


def _schedules(call: Call) -> Schedules:
    found = scene(call).desk.schedules
    if found is None:
        raise RpcError("there are no jobs here", code="UNAVAILABLE")
    return found


async def status(call: Call, asked: Nothing) -> dict[str, Any]:
    """How many there are, and when the next is due."""
    return _schedules(call).status()


async def listed(call: Call, asked: List) -> dict[str, Any]:
    """The next one first."""
    found = _schedules(call).jobs(disabled=asked.include_disabled or asked.enabled in ("all", "disabled"))
    if asked.enabled == "disabled":
        found = [job for job in found if not job["enabled"]]
    if asked.query:
        found = [job for job in found if asked.query.lower() in f"{job['name']} {job['id']}".lower()]
    found = [job for job in found if _wanted(job, asked)]
    page = found[asked.offset : asked.offset + asked.limit]
    after = asked.offset + len(page)
    more = after < len(found)
    made = {"jobs": page, "total": len(found), "offset": asked.offset, "limit": asked.limit, "hasMore": more}
    return {**made, "nextOffset": after if more else None, "deliveryPreviews": {}}


def _wanted(job: dict[str, Any], asked: List) -> bool:
    kinds = (None, "all", job["schedule"]["kind"])
    last = job.get("state", {}).get("lastRunStatus") or "unknown"
    return (
        asked.schedule_kind in kinds
        and asked.last_run_status in (None, "all", last)
        and asked.agent_id in (None, job.get("agentId"))
    )


async def get(call: Call, asked: Which) -> dict[str, Any]:
    """One."""
    try:
        return _schedules(call).job(asked.name)
    except PalinurusError as exc:
        raise RpcError(exc.message) from None


async def add(call: Call, asked: Add) -> dict[str, Any]:
    """The job as it was made."""
    here = scene(call).desk.settings
    job = {name: value for name, value in _body(asked).items() if value is not None}
    session = job.pop("sessionKey", "")
    try:
        return await _schedules(call).add(job, Maker(session=session, agent=here.default_agent))
    except PalinurusError as exc:
        raise RpcError(exc.message) from None


def _body(asked: Add) -> dict[str, Any]:
    names = zip(asked.__struct_fields__, asked.__struct_encode_fields__, strict=True)
    return {wire: getattr(asked, own) for own, wire in names}


async def update(call: Call, asked: Update) -> dict[str, Any]:
    """The job as it is now."""
    try:
        return await _schedules(call).update(asked.name, asked.patch or {})
    except PalinurusError as exc:
        raise RpcError(exc.message) from None


async def remove(call: Call, asked: Which) -> dict[str, Any]:
    """Its runs are remembered for a while."""
    return {"ok": True, "removed": await _schedules(call).remove(asked.name)}


async def run(call: Call, asked: Run) -> dict[str, Any]:
    """Start it; what becomes of it is told as event and in cron.runs."""
    try:
        return await _schedules(call).run(asked.name, force=asked.mode == "force")
    except PalinurusError as exc:
        raise RpcError(exc.message) from None


async def runs(call: Call, asked: Runs) -> dict[str, Any]:
    """The newest first."""
    ident = "" if asked.scope == "all" else asked.id or asked.job_id or ""
    wanted = {*asked.statuses, *([asked.status] if asked.status not in (None, "all") else [])}
    try:
        found = await _schedules(call).runs(ident, 10_000)
    except PalinurusError as exc:
        raise RpcError(exc.message) from None
    found = [e for e in found if not wanted or e["status"] in wanted]
    total = sum(e["missed"]["count"] if asked.slots and "missed" in e else 1 for e in found)
    lines = unfold_history(found) if asked.slots else iter(found)
    if asked.run_id is not None:
        lines = iter([e for e in lines if e["runId"] == asked.run_id])
    page = list(islice(lines, asked.offset, asked.offset + asked.limit))
    after, more = asked.offset + len(page), next(lines, None) is not None
    total = total if more and asked.run_id is None else after
    made = {"entries": page, "total": total, "offset": asked.offset, "limit": asked.limit, "hasMore": more}
    return {**made, "nextOffset": after if more else None}


async def wake(call: Call, asked: Wake) -> dict[str, Any]:
    """Tell a session something: now, as a turn of its own, or with its next turn."""
    here = scene(call)
    key = here.rows.key(asked.session_key or here.desk.settings.session.main_key, asked.agent_id)
    try:
        source = "" if call.client.may(ADMIN) else f"client {call.client.info.id}"[:80]
        await _schedules(call).wake(asked.text, now=asked.mode == "now", session=str(key), source=source)
    except PalinurusError as exc:
        raise RpcError(exc.message) from None
    return {"ok": True}


async def told(call: Call, asked: Told) -> dict[str, Any]:
    """Tell a session something with its next turn."""
    here = scene(call)
    key = here.rows.key(asked.session_key or here.desk.settings.session.main_key, None)
    await _schedules(call).wake(asked.text, now=False, session=str(key))
    return {"ok": True}


async def heartbeat(call: Call, asked: Nothing) -> dict[str, Any] | None:
    """The last one that ran, with what it cost."""
    return _schedules(call).last_heartbeat()


async def beats(call: Call, asked: Beats) -> dict[str, Any]:
    """On or off, for good: the next start knows it too."""
    await _schedules(call).set_heartbeats(asked.enabled)
    return {"ok": True, "enabled": asked.enabled}


METHODS: tuple[Method, ...] = (
    Method("cron.status", READ, Nothing, status),
    Method("cron.list", READ, List, listed),
    Method("cron.get", READ, Which, get),
    Method("cron.runs", READ, Runs, runs),
    Method("cron.add", ADMIN, Add, add),
    Method("cron.update", ADMIN, Update, update),
    Method("cron.remove", ADMIN, Which, remove),
    Method("cron.run", ADMIN, Run, run),
    Method("wake", WRITE, Wake, wake),
    Method("system-event", ADMIN, Told, told),
    Method("last-heartbeat", READ, Nothing, heartbeat),
    Method("set-heartbeats", ADMIN, Beats, beats),
)
