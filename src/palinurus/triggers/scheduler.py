"""The one timer: looks at jobs and heartbeats when the next one is due, and once a minute in any case, so that a clock
that is set or a machine that slept is noticed. Also the `SchedulerPort` that the tool, the gateway and `pal cron` use.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from palinurus.agent.plan.sandbox import is_sandboxed
from palinurus.config.zones import find_zone
from palinurus.core.policy.spoken import AGREED
from palinurus.core.schedule.job import CronJob, make_job, patch_job
from palinurus.core.types.inbound import Inbound, Sender, TurnOptions
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.errors import BadRequest, NotFound
from palinurus.store.news import StoreNews
from palinurus.tools.program.cron import PERSON, CronJobMaker, SchedulerListener, SchedulerPort
from palinurus.triggers.cron import CronRunner
from palinurus.triggers.events import EVENT, SystemEvent, SystemEvents
from palinurus.triggers.heartbeat import AgentHeartbeat
from palinurus.triggers.jobs import JOB, STATE, JobStore, ScheduledJob
from palinurus.triggers.message import find_last_destination, make_main_key, resolve_job_session
from palinurus.triggers.ports import TriggerPort

log = logging.getLogger(__name__)

TICK = 60.0  # seconds between two looks at most
LEAST = 0.05
CLOCK = "clock"  # what the one node holds that keeps time
SWITCH = ("heartbeats", "off")  # the record that is there while people have switched them off


class Scheduler(SchedulerPort):
    """The timer, and the jobs and heartbeats it looks at. What callers may ask for is said in `SchedulerPort`."""

    def __init__(self, port: TriggerPort, events: SystemEvents) -> None:
        self._listeners: list[SchedulerListener] = []
        self._port = port = msgspec.structs.replace(port, tell=self._tell)
        self._tz = port.settings.cron.timezone or (port.zone if find_zone(port.zone) else "")
        self._jobs = JobStore(port.store, self._tz, port.settings.cron)
        self.events = events
        self._cron = CronRunner(port, self._jobs, events)
        self._cron.wake = self.nudge
        self._beats = {a: AgentHeartbeat(a, s, port, events) for a, s in port.settings.heartbeats.items()}
        for beat in self._beats.values():
            beat.wake = self.nudge
        self._last: dict[str, Any] | None = None
        self._nudged = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._keeps_time: bool | None = None  # None: nobody has asked yet

    # --- the timer

    async def load(self) -> None:
        """What is on disk. Nothing is started yet."""
        now = self._port.clock.now()
        await self.events.load()
        await self._jobs.load(now)
        off = await self._port.store.get_record(*SWITCH)
        for beat in self._beats.values():
            await beat.load(now)
            beat.enable(off is None)

    def start(self) -> None:
        """From now on things happen."""
        self._task = asyncio.ensure_future(self._run())

    async def tick(self) -> int | None:
        """One look at everything. Returns when the next thing is due, in milliseconds; None: nothing is."""
        now = self._port.clock.now()
        dues = [await self._cron.tick(now), *[await beat.tick(now) for beat in self._beats.values()]]
        return min((due for due in dues if due is not None), default=None)

    async def _may_keep_time(self) -> bool:
        """Is it this node that starts things? If it was another until now, what is on disk is read again."""
        if self._keeps_time is not True:
            before, self._keeps_time = self._keeps_time, await self._port.store.grant(CLOCK)
            if self._keeps_time and before is False:
                await self.load()
        return self._keeps_time

    async def hear(self, news: StoreNews) -> None:
        """Another node has changed jobs or events, or keeps time no more."""
        if news.key in (JOB, STATE):
            await self._jobs.reread(news.detail)
        elif news.key == EVENT:
            await self.events.reread(news.detail)
        elif news.key == SWITCH[0]:
            off = await self._port.store.get_record(*SWITCH)
            for beat in self._beats.values():
                beat.enable(off is None)
        elif news.key != CLOCK:
            return
        self.nudge()

    async def _run(self) -> None:
        while True:
            self._nudged.clear()
            wait = TICK
            try:
                due = await self.tick() if await self._may_keep_time() else None
                if due is not None:
                    wait = min(TICK, max(LEAST, (due - self._port.clock.now()) / 1000))
            except Exception:  # task boundary: a full disk or a broken file; the next look comes
                log.exception("jobs and heartbeats could not be looked at")
            await self._rest(wait)

    async def _rest(self, seconds: float) -> None:
        sleep = asyncio.ensure_future(self._port.clock.sleep(seconds))
        nudge = asyncio.ensure_future(self._nudged.wait())
        try:
            await asyncio.wait((sleep, nudge), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            nudge.cancel()

    def nudge(self) -> None:
        """Look now."""
        self._nudged.set()

    async def close(self) -> None:
        """Start nothing more; what runs is the dispatcher's."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._cron.close()
        for beat in self._beats.values():
            await beat.close()

    # --- jobs

    def status(self) -> dict[str, Any]:
        dues = [held.due for held in self._jobs.all() if held.due is not None]
        enabled = self._port.settings.cron.enabled
        next_at = min(dues, default=None) if enabled else None
        return {"enabled": enabled, "storePath": "state.db", "jobs": len(self._jobs.all()), "nextWakeAtMs": next_at}

    def jobs(self, disabled: bool = False) -> list[dict[str, Any]]:
        found = [held for held in self._jobs.all() if disabled or held.job.enabled]
        return [held.describe() for held in sorted(found, key=lambda held: (held.due is None, held.due or 0))]

    def job(self, ident: str) -> dict[str, Any]:
        return self._jobs.find(ident).describe()

    async def add(self, asked: dict[str, Any], maker: CronJobMaker) -> dict[str, Any]:
        if (known := self._jobs.get(maker.ident)) is not None:
            return known.describe()
        asked = self._placed(asked, maker)
        now = self._port.clock.now()
        agent = maker.agent or self._port.settings.default_agent
        try:
            job = make_job(asked, maker.ident or str(uuid.uuid4()), now, agent, tz=self._tz, source=maker.source)
        except ValueError as exc:
            raise BadRequest(str(exc)) from None
        job = msgspec.structs.replace(job, shared=maker.shared)
        self._refuse_barred(job, maker)
        if job.agent_id not in self._port.settings.agents:
            raise BadRequest(f"unknown agent {job.agent_id[:64]!r}", fix="`pal agents` lists them")
        return self._changed("added", await self._jobs.add(job))

    def _placed(self, asked: dict[str, Any], maker: CronJobMaker) -> dict[str, Any]:
        """`current` becomes the session that asks; an announcement without an address goes where it was asked for."""
        made = dict(asked)
        if made.get("sessionTarget") == "current":
            if not maker.session:
                raise BadRequest("there is no current session here: name one, session:<key>")
            made["sessionTarget"] = f"session:{maker.session}"
        delivery = made.get("delivery")
        payload = made.get("payload")
        turn = isinstance(payload, dict) and (payload.get("kind") == "agentTurn" or "message" in payload)
        isolated = made.get("sessionTarget", "isolated" if turn else "main") == "isolated"
        if delivery is None and isolated:
            delivery = {"mode": "announce"}
        bare = isinstance(delivery, dict) and delivery.get("mode") == "announce" and not delivery.get("channel")
        if bare and maker.channel in self._port.channels:
            made["delivery"] = {
                **(delivery or {}), "channel": maker.channel, "to": maker.to, "accountId": maker.account
            }  # fmt: skip
        return made

    async def update(self, ident: str, patch: dict[str, Any], maker: CronJobMaker = PERSON) -> dict[str, Any]:
        held, now = self._jobs.find(ident), self._port.clock.now()
        try:
            job = patch_job(held.job, patch, now, self._tz, source=maker.source)
        except ValueError as exc:
            raise BadRequest(str(exc)) from None
        job = msgspec.structs.replace(job, shared=job.shared or maker.shared)
        self._refuse_barred(job, maker)
        await self._jobs.change(held, job, now)
        return self._changed("updated", held)

    def explain_barred(self, ident: str, maker: CronJobMaker) -> str:
        try:
            self._refuse_barred(self._jobs.find(ident).job, maker)
        except BadRequest as exc:
            return f"{exc.message}; {exc.fix}"
        except NotFound:  # who asks for it says so
            pass
        return ""

    def _refuse_barred(self, job: CronJob, maker: CronJobMaker) -> None:
        """A job is one more way from session to session: as far as letters go, and out of no sandbox. Raises
        BadRequest."""
        if not maker.turn:
            return
        own = resolve_job_session(job, 0, self._port.settings)
        for key in (own, msgspec.structs.replace(own, agent=job.agent_id)):
            self._refuse_beyond(key, maker)

    def _refuse_beyond(self, key: SessionKey, maker: CronJobMaker) -> None:
        settings, start = self._port.settings, parse_session_key(maker.session)
        if not maker.turn or start is None or not {start.agent, key.agent} <= settings.agents.keys():
            return
        if not settings.reach.joins(start.agent, key.agent):
            words = f"agent {key.agent} is out of reach from here"
            raise BadRequest(words, fix="tools.agentToAgent says which agents may write to each other")
        if is_sandboxed(settings.agents[start.agent], start) and not is_sandboxed(settings.agents[key.agent], key):
            raise BadRequest(f"this session is sandboxed and {key} is not", fix="make the job for this session")

    async def remove(self, ident: str) -> bool:
        try:
            held = self._jobs.find(ident)
        except NotFound:
            return False
        await self._jobs.remove(held)
        self._changed("removed", held)
        return True

    async def run(self, ident: str, *, force: bool = True) -> dict[str, Any]:
        held, now = self._jobs.find(ident), self._port.clock.now()
        if held.starting or held.state.item or held.state.pending:
            return {"ok": True, "enqueued": False, "ran": False, "reason": "already-running"}
        if not force and (held.due is None or held.due > now):
            return {"ok": True, "enqueued": False, "ran": False, "reason": "not-due"}
        begin = await self._may_keep_time()
        return {"ok": True, "enqueued": True, "runId": await self._cron.force(held, now, begin=begin)}

    async def runs(self, ident: str = "", limit: int = 50) -> list[dict[str, Any]]:
        """A job that is gone is known by its whole id."""
        try:
            ident = self._jobs.find(ident).job.id if ident else ""
        except NotFound:
            found = await self._jobs.runs(ident, limit)
            if not found:
                raise
            return found
        return await self._jobs.runs(ident, limit)

    def _changed(self, action: str, held: ScheduledJob) -> dict[str, Any]:
        self.nudge()
        shown = held.describe()
        self._tell("cron", {"jobId": held.job.id, "action": action, "job": shown})
        return shown

    # --- telling a session something

    async def wake(self, text: str, *, now: bool, session: str = "", maker: CronJobMaker = PERSON) -> None:
        settings, at, source = self._port.settings, self._port.clock.now(), maker.source
        default = maker.agent or settings.default_agent
        key = parse_session_key(session, default) if session else make_main_key(settings, default)
        if key is None or key.agent not in settings.agents:
            raise BadRequest(f"no such session: {session[:80]}", fix="`pal sessions` lists them")
        self._refuse_beyond(key, maker)
        ident = uuid.uuid4().hex
        if not now:
            await self.events.add(SystemEvent(ident, str(key), text, at, source=source))
            return
        destination = await find_last_destination(self._port, key)
        sender = Sender("wake", owner=not source or AGREED in source.split("\n"), allowed=True)
        message = Inbound(
            destination.target, sender, f"wake:{ident}", f"System: {text}", at=at, session=str(key), agent=key.agent,
            options=TurnOptions(trigger="wake"), system=True, push=destination.push, source=source,
            shared=maker.shared,
        )  # fmt: skip
        await self._port.inbox.submit(message)

    def waiting(self) -> list[str]:
        return self.events.texts()

    # --- heartbeats

    def last_heartbeat(self) -> dict[str, Any] | None:
        return self._last

    def heartbeats(self) -> dict[str, dict[str, Any]]:
        return {agent: beat.describe() for agent, beat in self._beats.items()}

    async def set_heartbeats(self, on: bool) -> None:
        await self._port.store.put_record(*SWITCH, None if on else b"off")
        for beat in self._beats.values():
            beat.enable(on)
        self.nudge()

    # --- who follows

    def follow(self, listener: SchedulerListener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _tell(self, event: str, payload: dict[str, Any]) -> None:
        if event == "heartbeat":
            self._last = payload
        for listener in tuple(self._listeners):
            listener(event, payload)
