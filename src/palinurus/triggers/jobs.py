"""Jobs on disk and in memory. What a person made (`job`) and what has become of it (`jobstate`) are two records, so
that an edit and a fire never overwrite each other. A job's last runs are one more, kept for a while after the
job is gone.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from palinurus.config.sections.schedule import CronSettings
from palinurus.core.schedule.fire import DAY_MS, AtSchedule, EverySchedule, find_next_due
from palinurus.core.schedule.job import CronJob, CronJobState, to_client_job
from palinurus.errors import BadRequest, NotFound
from palinurus.store.records import Records
from palinurus.triggers.ports import TriggerStore

log = logging.getLogger(__name__)

JOB, STATE, RUNS = "job", "jobstate", "jobruns"
MOST = 2000  # jobs
FORGET = 30 * DAY_MS


class ScheduledJob:
    """One job in memory."""

    def __init__(self, job: CronJob, state: CronJobState, tz: str) -> None:
        self.tz = tz
        self.job = job
        self.state = state
        self.due: int | None = None
        self.starting = False  # a fire of it is being handed in
        self.watched = False  # somebody waits for the end of its running fire
        self.plan()

    def plan(self) -> None:
        """When it is due next."""
        self.due = (
            find_next_due(self.job.schedule, self.state.cursor, self.tz, self.job.id) if self.job.enabled else None
        )

    def describe(self) -> dict[str, Any]:
        return to_client_job(self.job, self.state, self.due)


class JobStore:
    """All of them."""

    def __init__(self, store: TriggerStore, tz: str, settings: CronSettings) -> None:
        self._store = store
        self._tz = tz
        self._runs, self._most = settings.runs, settings.run_bytes or 0
        self._jobs = Records(store, JOB, CronJob)
        self._states = Records(store, STATE, CronJobState)
        self._past: Records[list[dict[str, Any]]] = Records(store, RUNS, list[dict[str, Any]])
        self._held: dict[str, ScheduledJob] = {}

    async def load(self, now: int) -> None:
        """From disk. A record that cannot be read is left alone and said in the log."""
        states = {kept.key: kept.data for kept in await self._store.list_records(STATE)}
        self._held.clear()
        for kept in await self._store.list_records(JOB):
            try:
                job = msgspec.json.decode(kept.data, type=CronJob)
                data = states.get(kept.key)
                state = msgspec.json.decode(data, type=CronJobState) if data else CronJobState(_first(job))
                self._held[job.id] = ScheduledJob(job, state, self._tz)
            except (msgspec.DecodeError, ValueError) as exc:
                log.error("job %s cannot be read and does not run: %s", kept.key, exc)
                states.pop(kept.key, None)
        for gone in states.keys() - self._held.keys():  # its job was removed, and then we were stopped
            await self._store.put_record(STATE, gone, None)
        for kept in await self._store.list_records(RUNS):
            if kept.key not in self._held and kept.at < now - FORGET:
                await self._store.put_record(RUNS, kept.key, None)

    def all(self) -> list[ScheduledJob]:
        return list(self._held.values())

    def find(self, ident: str) -> ScheduledJob:
        """By id, the beginning of one, or name, where that is one job. Raises NotFound."""
        if ident in self._held:
            return self._held[ident]
        hits = [h for h in self._held.values() if ident and (h.job.id.startswith(ident) or h.job.name == ident)]
        if len(hits) != 1:
            raise NotFound(
                f"{'several jobs are' if hits else 'no job is'} called {ident[:64]!r}",
                fix="`pal cron list` shows their ids",
            )
        return hits[0]

    def get(self, ident: str) -> ScheduledJob | None:
        """By its whole id."""
        return self._held.get(ident)

    async def add(self, job: CronJob) -> ScheduledJob:
        """On disk when it returns. Raises BadRequest."""
        if len(self._held) >= MOST:
            raise BadRequest(f"there are {MOST} jobs already", fix="remove some: `pal cron rm ID`")
        await self._jobs.put(job.id, job)
        held = self._held[job.id] = ScheduledJob(job, CronJobState(_first(job)), self._tz)
        return held

    async def reread(self, ident: str) -> None:
        """Another node has changed the job or its state, or removed it."""
        job, state = await self._jobs.get(ident), await self._states.get(ident)
        held = self._held.get(ident)
        if job is None:
            self._held.pop(ident, None)
        elif held is None:
            self._held[ident] = ScheduledJob(job, state or CronJobState(_first(job)), self._tz)
        else:
            held.job, held.state = job, state or held.state
            held.plan()

    async def change(self, held: ScheduledJob, job: CronJob, now: int) -> None:
        """The next slot follows the new job; a fire that runs ends as it began."""
        anew = job.schedule != held.job.schedule or (job.enabled and not held.job.enabled)
        before = msgspec.structs.asdict(held.job)
        changed = {name: value for name, value in msgspec.structs.asdict(job).items() if value != before[name]}
        kept = await self._jobs.update(job.id, lambda now: msgspec.structs.replace(now or job, **changed))
        held.job = kept or job
        if anew:
            await self.save(held, cursor=now)
        held.plan()

    async def save(self, held: ScheduledJob, **changes: Any) -> None:
        """The job's state with some things changed, on disk when it returns."""
        own = held.state = msgspec.structs.replace(held.state, **changes)
        held.plan()
        if held.job.id in self._held:
            await self._states.update(
                held.job.id, lambda kept: own if kept is None else msgspec.structs.replace(kept, **changes)
            )

    async def remove(self, held: ScheduledJob) -> None:
        self._held.pop(held.job.id, None)
        await self._store.put_record(JOB, held.job.id, None)
        await self._store.put_record(STATE, held.job.id, None)

    async def follow_clock_back(self, held: ScheduledJob, now: int) -> None:
        """The clock was set back: slots that were run stay run, the others get their turn at their time."""
        schedule = held.job.schedule
        if isinstance(schedule, EverySchedule):
            moved = msgspec.structs.replace(held.job, schedule=msgspec.structs.replace(schedule, anchor_ms=now))
            if await self._jobs.swap(moved.id, held.job, moved):
                held.job = moved
        if not isinstance(schedule, AtSchedule):
            await self.save(held, cursor=now)

    async def record_run(self, held: ScheduledJob, entry: dict[str, Any]) -> None:
        """Remember what became of a fire; the same run twice is one entry."""

        def add(before: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
            kept = [*(e for e in before or () if e.get("runId") != entry["runId"]), entry][-self._runs :]
            while self._most and len(kept) > 1 and len(msgspec.json.encode(kept)) > self._most:
                del kept[: max(1, len(kept) // 10)]
            return kept

        await self._past.update(held.job.id, add)

    async def runs(self, ident: str, limit: int) -> list[dict[str, Any]]:
        """The newest first."""
        if ident:
            found = await self._entries(ident)
        else:
            every = await self._store.list_records(RUNS)
            found = [entry for kept in every for entry in msgspec.json.decode(kept.data)]
        return sorted(found, key=lambda entry: -entry["ts"])[:limit]

    async def _entries(self, ident: str) -> list[dict[str, Any]]:
        return await self._past.get(ident) or []


def _first(job: CronJob) -> int:
    """The cursor of a new job: also a time that was just over when it was made is still to come."""
    schedule, made = job.schedule, job.created_at_ms
    return min(made, schedule.at - 1) if isinstance(schedule, AtSchedule) else made
