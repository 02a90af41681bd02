"""Heartbeats: the agent looks by itself whether something needs attention. Whether that is worth a model call is
decided in `core/schedule/heartbeat`; this looks (at HEARTBEAT.md, what waits, who wrote), asks, and counts the cost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, tzinfo
from functools import partial
from hashlib import blake2s
from typing import Any

import msgspec

from palinurus.beneath import open_file_beneath, resolve_beneath
from palinurus.config.sections.schedule import HeartbeatSettings
from palinurus.config.zones import find_zone
from palinurus.core.levels.parse import read_prompt
from palinurus.core.prompt.facts import HEARTBEAT_PROMPT
from palinurus.core.schedule import heartbeat
from palinurus.core.schedule.fire import DAY_MS
from palinurus.core.schedule.heartbeat import HeartbeatObservation, HeartbeatPage, HeartbeatState, HeartbeatVerdict
from palinurus.core.stream.heartbeat import find_last_word, judge_heartbeat_reply
from palinurus.core.types.events import AgentEnd, RunEvent
from palinurus.core.types.inbound import HeartbeatOptions, Inbound, Sender, TurnOptions
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.errors import Draining, NotFound, PalinurusError
from palinurus.sessions.record import SessionRecord
from palinurus.store.records import Records
from palinurus.tools.watches import get_persona_watches
from palinurus.triggers.events import NOTHING, SystemEvents
from palinurus.triggers.message import HeartbeatTarget, make_main_key, resolve_target
from palinurus.triggers.ports import TriggerPort

log = logging.getLogger(__name__)

WATCH_LIMIT = 60.0  # seconds it may take


class CommandWatch:
    """The command a heartbeat watches. It runs beside the timer, as the agent's own commands do, and only a hash of
    what it printed is kept: while that stays the same, nobody is asked anything.

    `look` starts it; `digest` is of the last output, "" before there was one; `done` is called after each.
    """

    def __init__(self, command: str, run: Callable[[], Awaitable[str | None]], done: Callable[[], None]) -> None:
        self._command = _hash(command)
        self._run = run
        self._done = done
        self._task: asyncio.Task[None] | None = None
        self.digest = ""
        self.looked = 0  # ms: when it was last started

    def look(self, now: int) -> None:
        """Run it, unless it runs."""
        if self._task is None:
            self.looked = now
            self._task = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        try:
            text = await self._run()
            if text is not None:  # one that failed has seen nothing: that is no change
                self.digest = f"{self._command}:{_hash(text)}"
        except Exception:  # task boundary: a command that cannot be run must not end heartbeats
            log.exception("the watched command could not be run")
        finally:
            self._task = None
            self._done()

    def is_first_output(self, before: str) -> bool:
        """Is this the first output of this command? `before`: the digest that is remembered, maybe of another one."""
        return bool(self.digest) and before.partition(":")[0] != self._command

    async def close(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _hash(text: str) -> str:
    return blake2s(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


KIND = "heartbeat"
FILE = "HEARTBEAT.md"
LARGEST = 200_000  # bytes of it that are read
FATAL = frozenset(("auth", "billing", "budget", "config"))  # failures that the next beat would meet again
PREVIEW, SAID = 200, 4000  # characters


class AgentHeartbeat:
    """The heartbeat of one agent."""

    def __init__(self, agent: str, settings: HeartbeatSettings, port: TriggerPort, events: SystemEvents) -> None:
        self.agent = agent
        self.settings = settings
        self._port = port
        self._events = events
        self._kept = Records(port.store, KIND, HeartbeatState)
        self._beat = HeartbeatState()
        self._task: asyncio.Task[None] | None = None
        self._digest = ""  # of HEARTBEAT.md, as the last look saw it
        self._wanted = False
        self.wake: Callable[[], None] = lambda: None  # look again: the watched command has ended
        self._watch = CommandWatch(settings.watch, self._run, lambda: self.wake())
        self.on = True
        self.why = ""  # why the last look led to none

    @property
    def key(self) -> SessionKey:
        """The session it belongs to."""
        typed = self.settings.session
        found = parse_session_key(typed, self.agent) if typed and typed != "main" else None
        return found or make_main_key(self._port.settings, self.agent)

    async def load(self, now: int) -> None:
        """What is remembered. A beat that ran when we were stopped is the inbox's to finish; then it is counted."""
        self._beat = await self._kept.get(self.agent) or HeartbeatState(last=now)
        # A start is a new chance for what had stopped: keys and budgets may have changed.
        self._beat = msgspec.structs.replace(self._beat, stopped="", last=min(self._beat.last, now))

    def request(self) -> None:
        """Beat with the next tick, whatever is new."""
        self._wanted = True

    def enable(self, on: bool) -> None:
        """On also starts one that has stopped itself."""
        self.on = on
        if on and self._beat.stopped:
            self._beat = msgspec.structs.replace(self._beat, stopped="")

    def describe(self) -> dict[str, Any]:
        """As configured, and as it stands."""
        own, beat = self.settings, self._beat
        every = f"{own.every / 60:g}m"
        made = {"agentId": self.agent, "enabled": self.on, "every": every, "everyMs": int(own.every * 1000)}
        made |= {"prompt": own.prompt or HEARTBEAT_PROMPT, "target": own.target, "ackMaxChars": own.ack_chars}
        made |= {"count": beat.count, "costUsd": round(beat.cost, 6), "lastReason": self.why}
        return {**made, **({"stopped": beat.stopped} if beat.stopped else {})}

    async def tick(self, now: int) -> int | None:
        """Look, and beat if it is worth it. Returns when the next one is due."""
        if self._task is None and self._beat.item:
            self._follow(partial(self._resumed, self._beat.item, self._beat.last))
        if self._task is None:
            verdict = await self._look(now)
            self.why = verdict.why
            if verdict.beat:
                await self._ask(verdict, now)
        return max(now + 1000, self._beat.last + int(self.settings.every * 1000))

    async def _look(self, now: int) -> HeartbeatVerdict:
        own = self.settings
        if not self.on:
            return HeartbeatVerdict(False, "disabled")
        if own.hours is not None and not own.hours.open(now, _zone(own.timezone)):
            return HeartbeatVerdict(False, "quiet-hours")
        if self._port.inbox.running(str(self.key)) or (own.skip_busy and self._port.inbox.busy):
            return HeartbeatVerdict(False, "requests-in-flight")
        workspace = self._port.settings.agents[self.agent].workspace
        get_persona_watches().put_back(workspace)
        text = await asyncio.to_thread(read_orders, workspace)
        page = heartbeat.parse_heartbeat_page(text)
        self._digest = _hash(text) if page.text or page.tasks else ""
        await self._watched(now)
        if self._wanted and not self._beat.stopped:
            self._wanted = False
            return HeartbeatVerdict(True, "requested", page.tasks)
        return heartbeat.judge_heartbeat(self._beat, await self._seen(page, now))

    async def _seen(self, page: HeartbeatPage, now: int) -> HeartbeatObservation:
        row = await self._port.store.session(str(self.key))
        talked = SessionRecord.decode(row.data).lastInteractionAt or 0 if row is not None else 0
        # In a session of its own it is told what waits, but takes nothing away: the same is no reason twice.
        waiting = self._events.has_waiting(str(self.key), self._beat.last if self.settings.isolated else -1)
        return HeartbeatObservation(
            now, self.settings.every, page, self._digest, events=waiting, talked=talked, watch=self._watch.digest
        )

    async def _watched(self, now: int) -> None:
        """Run the watched command as often as beats may come; the first output is what later ones are compared with."""
        if self.settings.watch and not self._beat.stopped and now - self._watch.looked >= self.settings.every * 1000:
            self._watch.look(now)
        if self._watch.is_first_output(self._beat.watch):
            await self._save(watch=self._watch.digest)

    async def _run(self) -> str | None:
        run = self._port.run
        return await run(self.key, self.settings.watch, WATCH_LIMIT) if run is not None else None

    async def _ask(self, verdict: HeartbeatVerdict, now: int) -> None:
        asked = {**self._beat.tasks, **{task.name: now for task in verdict.tasks}}
        ends: list[AgentEnd] = []
        to = await resolve_target(self._port, self.settings, self.key)
        if to.useless:
            self.why = to.why
            return
        message = self._message(verdict, to, now)
        watch, before = self._watch.digest or self._beat.watch, self._beat
        # On disk before it is asked: a crash between the two skips a beat, the other way round it would beat twice.
        await self._save(last=now, digest=self._digest, tasks=asked, watch=watch)
        try:
            accepted = await self._port.inbox.submit(message, _listener(ends))
        except PalinurusError as exc:
            await self._save(last=before.last, digest=before.digest, tasks=before.tasks, watch=before.watch)
            if not isinstance(exc, Draining):
                self._report(now, "failed", reason=exc.message)
            return
        await self._save(item=accepted.id)
        unsent = to.why or ("" if to.seen.alerts else "alerts-disabled")
        self._follow(partial(self._end, message, accepted.id, verdict.why, unsent, ends=ends))

    def _message(self, verdict: HeartbeatVerdict, to: HeartbeatTarget, now: int) -> Inbound:
        own, beat = self.settings, self._beat
        prompt, inline = read_prompt(own.prompt or HEARTBEAT_PROMPT)
        told = self._events.peek(str(self.key)) if own.isolated else NOTHING
        lines = [*([told.text, ""] if told.text else []), prompt.strip() or HEARTBEAT_PROMPT]
        if verdict.tasks:
            lines += ["", "Tasks that are due:", *(f"- {task.name}: {task.prompt}" for task in verdict.tasks)]
        if verdict.why == heartbeat.WATCH_CHANGED:
            lines += ["", f"The watched command prints something else than before: {own.watch}"]
        here = datetime.fromtimestamp(now / 1000, _zone(own.timezone))
        lines += ["", f"Current time: {here:%A, %Y-%m-%d %H:%M} ({here.tzname()})"]
        key = SessionKey(self.agent, f"cron:heartbeat:run:{now}") if own.isolated else self.key
        said = beat.said if now - beat.said_at < DAY_MS else ""
        # Directives of the configured prompt act; what is told along with it never does.
        options = TurnOptions(
            model=own.model,
            queue="followup",
            trigger="heartbeat",
            inline=msgspec.structs.replace(inline, reasoning="on") if own.reasoning else inline,
            timeout_seconds=own.timeout,
            prompt_mode="minimal" if own.light else None,
            heartbeat=HeartbeatOptions(own.ack_chars, said, own.reasoning, to.seen.ok, alerts=to.seen.alerts),
        )
        sender = Sender("heartbeat", owner=True, allowed=True)
        event = f"heartbeat:{self.agent}:{now}"
        return Inbound(
            to.destination.target, sender, event, "\n".join(lines), at=now, session=str(key), agent=self.agent,
            options=options, system=True, push=to.destination.push, source=told.source,
        )  # fmt: skip

    def _follow(self, work: Callable[[], Awaitable[None]]) -> None:
        """See a beat to its end, beside everything else."""
        self._task = asyncio.ensure_future(self._followed(work))

    async def _followed(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except PalinurusError as exc:
            log.warning("heartbeat of %s: %s", self.agent, exc.message)
        except Exception:  # task boundary: logged; the next beat comes
            log.exception("heartbeat of %s: its end could not be handled", self.agent)
        finally:
            self._task = None

    async def _resumed(self, item: str, began: int) -> None:
        """One that a stop of the program has cut in two: what it said is on its way, what it cost is counted."""
        try:
            row = await self._port.inbox.wait(item)
        except NotFound:
            await self._save(item="")
            return
        spent = await self._port.store.list_usage(began, row.session)
        cost = sum(s.cost or 0.0 for s in spent if s.item == item)
        await self._save(item="", cost=self._beat.cost + cost, count=self._beat.count + 1)

    async def _end(self, message: Inbound, item: str, why: str, unsent: str, *, ends: list[AgentEnd]) -> None:
        began = message.at
        row = await self._port.inbox.wait(item)
        spent = [s for s in await self._port.store.list_usage(began, row.session) if s.item == item]
        cost = sum(s.cost or 0.0 for s in spent)
        beat = self._beat
        changes: dict[str, Any] = {"item": "", "cost": beat.cost + cost, "count": beat.count + 1}
        word = find_last_word(ends[-1].messages) if ends else ""
        said = judge_heartbeat_reply(word or row.note, message.options.heartbeat or HeartbeatOptions())
        failure = ends[-1].failure if ends else None
        fatal = failure.kind if failure is not None and failure.kind in FATAL else ""
        more: dict[str, Any] = {"costUsd": round(cost, 6), "reason": why, "itemId": item}
        more["tokens"] = sum(s.input + s.output + s.cache_read + s.cache_write for s in spent)
        if row.outcome not in ("answered", "silent"):
            status = "failed"
            more["reason"] = row.note[:PREVIEW]
            if fatal:
                changes["stopped"] = f"{fatal}: {row.note[:PREVIEW]}"
                log.warning("heartbeats of %s stop: %s", self.agent, changes["stopped"])
                more["stopped"] = changes["stopped"]
        elif said.drop or row.outcome == "silent":
            again = bool(said.text) and said.text == beat.said
            status, changes["quiet"] = "duplicate" if again else "ok-token", beat.quiet + 1
        else:
            status, more["preview"] = "skipped" if unsent else "sent", said.text[:PREVIEW]
            more |= {"reason": unsent} if unsent else {}
            changes |= {"quiet": 0, "said": said.text[:SAID], "said_at": began}
        await self._save(**changes)
        self._report(began, status, **more, durationMs=row.settled - row.claimed)

    def _report(self, now: int, status: str, **more: Any) -> None:
        told = {"ts": now, "status": status, "agentId": self.agent, "sessionKey": str(self.key), **more}
        self._port.tell("heartbeat", told)

    async def _save(self, **changes: Any) -> None:
        self._beat = msgspec.structs.replace(self._beat, **changes)
        await self._kept.put(self.agent, self._beat)  # ours alone: whoever keeps time writes it

    async def close(self) -> None:
        """Stop waiting."""
        await self._watch.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _listener(ends: list[AgentEnd]) -> Callable[[RunEvent], None]:
    def hear(event: RunEvent) -> None:
        if isinstance(event, AgentEnd):
            ends.append(event)

    return hear


def read_orders(workspace: str) -> str:
    """What HEARTBEAT.md says; "" if there is none."""
    try:
        with open_file_beneath(workspace, resolve_beneath(workspace, FILE) or "") as file:
            return file.read(LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def _zone(name: str) -> tzinfo:
    return find_zone(name) or datetime.now(UTC).astimezone().tzinfo or UTC
