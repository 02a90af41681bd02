"""Fires of jobs. What is due becomes a message of the inbox, once; its end becomes a line of the job's history.

A fire in order: `pending` on disk, slot and message in the inbox (or slot, then event), the message's id on disk.
Killed anywhere, the next start finds `pending` and hands in the same message again, which is known or is not. While a
fire runs its job does not fire; what comes due meanwhile is a missed time, for which the job's `misfire` decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from palinurus.core.schedule.failure import find_failure_reason
from palinurus.core.schedule.fire import GRACE_MS, AtSchedule, MissedSpan, decide_misfires, list_past_dues
from palinurus.core.schedule.job import CronDelivery, CronJob, CronJobState
from palinurus.core.types.tool import ToolFailure
from palinurus.crashpoints import pass_crashpoint
from palinurus.errors import BadRequest, Draining, NotFound, PalinurusError
from palinurus.store.port import InboxRow, SlotTaken
from palinurus.tasks import TaskSet
from palinurus.triggers import message
from palinurus.triggers.events import SystemEvent, SystemEvents
from palinurus.triggers.jobs import JobStore, ScheduledJob
from palinurus.triggers.ports import TriggerPort

log = logging.getLogger(__name__)

AT_ONCE = 50  # fires being started
LATE = 3_600_000  # ms
AGAIN = 30_000  # ms until a fire that could not be handed in is tried again
SUMMARY = 2000
POSTS = (0.0, 2.0, 15.0)  # seconds before each try of a webhook
STATUS = {"answered": "ok", "silent": "ok"}


class CronRunner:
    """Starts what is due and sees it to its end."""

    def __init__(self, port: TriggerPort, jobs: JobStore, events: SystemEvents) -> None:
        self._port = port
        self._jobs = jobs
        self._events = events
        self._tasks = TaskSet("the end of a job")
        self.wake: Callable[[], None] = lambda: None  # look again: a job is free

    async def tick(self, now: int) -> int | None:
        """Start what is due. Returns when to look again; None: when something changes."""
        if not self._port.settings.cron.enabled:
            return None
        ready = []
        for held in self._jobs.all():
            if held.starting:  # by hand
                continue
            if held.state.item and not held.watched:  # it ran when we were stopped
                self._watch(held)
            if held.state.cursor > now + GRACE_MS and held.job.enabled:
                await self._jobs.follow_clock_back(held, now)
            if held.state.pending or (not held.state.item and held.due is not None and held.due <= now):
                ready.append(held)
        ready.sort(key=lambda held: held.state.pending or held.due or 0)
        for at in range(0, len(ready), AT_ONCE):
            await asyncio.gather(*(self._due(held, now) for held in ready[at : at + AT_ONCE]))
        waiting = [held.due for held in self._jobs.all() if held.due is not None and not held.state.item]
        if any(held.state.pending for held in self._jobs.all()):
            waiting.append(now + AGAIN)
        return min(waiting, default=None)

    async def _due(self, held: ScheduledJob, now: int) -> None:
        held.starting = True
        try:
            await self._decide(held, now)
        finally:
            held.starting = False

    async def _decide(self, held: ScheduledJob, now: int) -> None:
        if held.state.pending:
            await self._start(held, held.state.pending, now)
            return
        job = held.job
        asked = (job.schedule, held.state.cursor, now, held.tz, job.id)
        # After a long downtime there may be very many: they are counted beside everything else.
        late = held.due is not None and held.due < now - LATE
        dues, left = await asyncio.to_thread(list_past_dues, *asked) if late else list_past_dues(*asked)
        decision = decide_misfires(dues, now, job.misfire, job.window)
        if not decision.fires:
            count = decision.skipped + left
            await self._skipped(held, decision.upto, count, now)
            if isinstance(job.schedule, AtSchedule):
                await self._jobs.change(held, msgspec.structs.replace(job, enabled=False), now)
            await self._jobs.save(held, cursor=now, skipped=held.state.skipped + count)
            return
        due = decision.fires[0]
        over = len([d for d in dues if d < due]) + left
        # With `all` the later ones wait until this one is over: a job never runs beside itself.
        upto = due if job.misfire == "all" else decision.upto
        if over:
            await self._skipped(held, due - 1, over, now)
        await self._jobs.save(held, cursor=upto, pending=due, manual=False, skipped=held.state.skipped + over)
        pass_crashpoint("cron.pending")
        # What is told later makes no message that could hold the slot.
        if _is_told_later(job) and not await self._port.store.claim_slot(job.id, due):
            await self._jobs.save(held, pending=0)  # run before the clock was set back
            return
        await self._start(held, due, now)

    async def force(self, held: ScheduledJob, now: int, *, begin: bool = True) -> str:
        """Run it now, whatever its schedule says; without `begin` the node that keeps time does. Returns the run's id.
        Raises BadRequest."""
        if held.starting or held.state.item or held.state.pending:
            raise BadRequest("the job is running", fix="wait for it, or stop its run")
        held.starting = True
        try:
            while not await self._port.store.claim_slot(held.job.id, now):
                now += 1
            await self._jobs.save(held, pending=now, manual=True)
            if begin:
                await self._start(held, now, now)
        finally:
            held.starting = False
        return f"manual:{held.job.id}:{now}"

    async def _start(self, held: ScheduledJob, due: int, now: int) -> None:
        """Hand a fire in. Left pending where the inbox takes nothing now."""
        job = held.job
        try:
            key = message.resolve_job_session(job, due, self._port.settings)
            if _is_told_later(job):
                event = SystemEvent(f"{job.id}:{due}", str(key), job.payload.words, now, source=job.source)
                await self._events.add(event)
                await self._over(held, due, "ok", job.payload.words[:SUMMARY], facts={"sessionKey": str(key)})
                return
            destination = await message.resolve_job_destination(self._port, job.delivery, key, job.agent_id)
            fire = message.make_fire_message(job, due, now, key, destination=destination, manual=held.state.manual)
            accepted = await self._port.inbox.submit(fire)
        except SlotTaken:  # run before the clock was set back
            await self._jobs.save(held, pending=0)
            return
        except (BadRequest, NotFound) as exc:
            await self._over(held, due, "error", exc.message, facts={})
            return
        except Draining:
            return
        except PalinurusError as exc:  # a full queue, a full disk: both pass
            log.warning("job %s (%s) is started later: %s", job.id, job.name, exc.message)
            return
        pass_crashpoint("cron.accepted")
        self._tell(held, "started", {"runAtMs": due, "sessionKey": str(key)})
        await self._jobs.save(held, pending=0, item=accepted.id, running_at_ms=due)
        self._watch(held)

    def _watch(self, held: ScheduledJob) -> None:
        held.watched = True
        self._tasks.start(self._end(held))

    async def _end(self, held: ScheduledJob) -> None:
        """Wait for the fire's outcome, and do what follows from it."""
        due, item = held.state.running_at_ms, held.state.item
        try:
            try:
                row = await self._port.inbox.wait(item)
            except NotFound:
                await self._over(held, due, "error", "its message is gone", facts={})
                return
            pass_crashpoint("cron.ended")
            status = STATUS.get(row.outcome or "", "error")
            facts = await self._facts(row)
            facts["deliveryStatus"] = await self._deliver(held, row, due, status)
            await self._over(held, due, status, row.note[:SUMMARY], facts=facts)
        except PalinurusError as exc:
            log.error("job %s (%s): its end could not be written: %s", held.job.id, held.job.name, exc.message)
        except Exception:  # task boundary: logged; the next start finds the fire and ends it
            log.exception("job %s (%s): its end could not be handled", held.job.id, held.job.name)
        finally:
            held.watched = False
            self.wake()

    async def _facts(self, row: InboxRow) -> dict[str, Any]:
        spent = [s for s in await self._port.store.list_usage(row.at, row.session) if s.item == row.id]
        facts: dict[str, Any] = {"sessionKey": row.session, "itemId": row.id, "durationMs": row.settled - row.claimed}
        if spent:
            costs = [s.cost for s in spent if s.cost is not None]
            tokens = {"input": sum(s.input for s in spent), "output": sum(s.output for s in spent)}
            facts |= {"model": spent[-1].model, "provider": spent[-1].provider, "usage": tokens}
            facts |= {"costUsd": round(sum(costs), 6)} if costs else {}
        return facts

    async def _deliver(self, held: ScheduledJob, row: InboxRow, due: int, status: str) -> str:
        """Post the result; tell the main session what people were told."""
        job = held.job
        if job.delivery.mode == "webhook":
            return await self._post(held, row, due, status)
        if job.session_target == "isolated" and job.delivery.mode == "announce" and row.outcome == "answered":
            key = message.make_main_key(self._port.settings, job.agent_id)
            text = f"The scheduled job {job.name!r} told the person: {row.note[:SUMMARY]}"
            # What the run may have read came from anywhere.
            said = SystemEvent(f"said:{job.id}:{due}", str(key), text, self._port.clock.now(), source="session")
            await self._events.add(said)
            return "announced"
        return "not-requested"

    async def _post(self, held: ScheduledJob, row: InboxRow, due: int, status: str) -> str:
        """At least once; the receiver tells repeats by the Idempotency-Key."""
        job, run = held.job, f"{held.job.id}:{due}"
        body = {"jobId": job.id, "jobName": job.name, "runId": run, "status": status, "summary": row.note}
        url = job.delivery.to or self._port.settings.cron.webhook
        return await self._send_json(url, run, {**body, "runAtMs": due})

    async def _send_json(self, url: str, ident: str, body: dict[str, Any]) -> str:
        """What became of it."""
        settings = self._port.settings.cron
        if not url or self._port.post is None:
            return "failed: no address"
        headers = {"Content-Type": "application/json", "Idempotency-Key": ident}
        if settings.webhook_token:
            headers["Authorization"] = f"Bearer {settings.webhook_token.reveal()}"
        why = ""
        for wait in POSTS:
            await self._port.clock.sleep(wait)
            try:
                code = await self._port.post(url, msgspec.json.encode(body), headers)
            except ToolFailure as exc:
                why = str(exc)[:200]
                continue
            if 200 <= code < 300:
                return "delivered"
            why = f"HTTP {code}"
        return f"failed: {why}"

    async def _over(self, held: ScheduledJob, due: int, status: str, summary: str, facts: dict[str, Any]) -> None:
        """The fire has ended: history first, then the job is free."""
        job, state = held.job, held.state
        bad = status != "ok"
        run = f"{'manual:' if state.manual else ''}{job.id}:{due}"
        now = self._port.clock.now()
        entry = {"ts": now, "jobId": job.id, "jobName": job.name, "action": "finished", "status": status, "runId": run}
        entry |= {"summary": summary, "runAtMs": due, **facts, **({"error": summary} if bad else {})}
        await self._jobs.record_run(held, entry)
        # A job for one time goes before its state says that it ran: cut off between, its end is handled again.
        once = isinstance(job.schedule, AtSchedule) and not state.manual
        again = self._wait_again(state, summary) if once and bad else None
        if again is not None and self._jobs.get(job.id) is held:
            later = AtSchedule(now + int(again * 1000))
            await self._jobs.change(held, msgspec.structs.replace(held.job, schedule=later), now)
        elif once and job.delete_after_run and not bad:
            await self._jobs.remove(held)
        elif once and self._jobs.get(job.id) is held:
            await self._jobs.change(held, msgspec.structs.replace(held.job, enabled=False), now)
        await self._jobs.save(
            held,
            pending=0,
            item="",
            running_at_ms=0,
            manual=False,
            last_run_at_ms=due,
            last_run_status=status,
            last_error=summary[:500] if bad else "",
            last_duration_ms=facts.get("durationMs", 0),
            consecutive_errors=state.consecutive_errors + 1 if bad else 0,
        )
        if bad:
            await self._alert(held, due, summary)
        more = {"nextRunAtMs": held.due} if held.due is not None else {}
        self._tell(held, "finished", {**entry, **more})

    def _wait_again(self, state: CronJobState, why: str) -> float | None:
        """Seconds until a job for one time that failed is tried again; None: it is over."""
        rules, before = self._port.settings.cron.retry, state.consecutive_errors
        if rules is None or before >= rules.most or find_failure_reason(why) not in rules.reasons:
            return None
        return rules.waits[min(before, len(rules.waits) - 1)]

    async def _alert(self, held: ScheduledJob, due: int, why: str) -> None:
        """Tell somebody that the job fails, if the config wants that and it was not told just now. The word for it is
        kept first: after a crash in between nobody hears of this one, and of the next one."""
        cron, state, now = self._port.settings.cron, held.state, self._port.clock.now()
        alert, place, job = cron.alert, cron.failures, held.job
        named = bool(place.mode or place.channel or place.to)
        rest = alert.enabled and state.alerted_at_ms and now - state.alerted_at_ms < alert.cooldown * 1000
        if rest or not (named or alert.enabled) or (alert.enabled and state.consecutive_errors < alert.after):
            return
        await self._jobs.save(held, alerted_at_ms=now)
        text = f"⚠️ The scheduled job {job.name!r} failed"
        text += f" ({state.consecutive_errors} times in a row): " if state.consecutive_errors > 1 else ": "
        text += why[:500]
        if (place.mode or alert.mode) == "webhook":
            body = {"jobId": job.id, "jobName": job.name, "status": "error", "error": why, "runAtMs": due}
            await self._send_json(place.to or cron.webhook, f"{job.id}:{due}:failed", body)
            return
        account = place.account or alert.account
        delivery = CronDelivery("announce", place.channel, place.to, account) if named else job.delivery
        key = message.make_main_key(self._port.settings, job.agent_id)
        try:
            told = await message.resolve_job_destination(
                self._port, msgspec.structs.replace(delivery, mode="announce"), key, job.agent_id
            )
        except BadRequest as exc:
            log.warning("job %s (%s) failed, and nobody can be told: %s", job.id, job.name, exc.message)
            return
        if self._port.say is not None and told.push:
            target = msgspec.structs.replace(told.target, account=account or told.target.account)
            await self._port.say(target, text, f"cron-failed:{job.id}:{due}")

    async def _skipped(self, held: ScheduledJob, upto: int, count: int, now: int) -> None:
        """One line for all due times after the cursor up to `upto`; written before the cursor passes them."""
        job, after = held.job, held.state.cursor
        each = f"missed (misfire: {job.misfire})"
        why = f"{count} due time{'s' if count > 1 else ''} {each}"
        row = MissedSpan(job.id, after, upto, count, schedule=job.schedule, why=each, tz=held.tz)
        entry = {"ts": now, "jobId": job.id, "jobName": job.name, "action": "finished", "status": "skipped"}
        entry |= {"runId": f"{job.id}:skipped:{after}", "runAtMs": upto, "summary": why}
        await self._jobs.record_run(held, {**entry, "missed": msgspec.to_builtins(row)})
        if self._port.settings.cron.alert.skipped:
            await self._jobs.save(held, consecutive_errors=held.state.consecutive_errors + 1)
            await self._alert(held, upto, why)

    def _tell(self, held: ScheduledJob, action: str, more: dict[str, Any]) -> None:
        self._port.tell("cron", {**more, "jobId": held.job.id, "action": action, "job": held.describe()})

    async def close(self) -> None:
        """Stop waiting; the next start goes on."""
        await self._tasks.close()


def _is_told_later(job: CronJob) -> bool:
    """Is it no message, but told with the session's next one?"""
    return job.payload.kind == "systemEvent" and job.wake_mode == "next-heartbeat"
