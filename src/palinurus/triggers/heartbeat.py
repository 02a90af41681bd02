"""Heartbeats: the agent looks by itself whether something needs attention. Whether that is worth a model call is
decided in `core/schedule/beat`; this looks (at HEARTBEAT.md, what waits, who wrote), asks, and remembers what it cost.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from hashlib import blake2s
from typing import Any

import msgspec

from palinurus.config import durations
from palinurus.config.heartbeat import HeartbeatSettings
from palinurus.config.zones import zone
from palinurus.core.levels.parse import inline, parse
from palinurus.core.prompt.knobs import HEARTBEAT
from palinurus.core.schedule.beat import Beat, Look, Verdict, judge
from palinurus.core.schedule.fire import DAY
from palinurus.core.schedule.tasks import Page, read
from palinurus.core.stream.heartbeat import ack
from palinurus.core.types.events import AgentEnd, Event
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.keys import SessionKey, session_key
from palinurus.errors import Draining, PalinurusError
from palinurus.outbox.beat import last_word
from palinurus.sessions.record import Record
from palinurus.triggers.events import Events
from palinurus.triggers.message import TRIGGER, Way, last_way, main_key
from palinurus.triggers.ports import Doors

log = logging.getLogger(__name__)

KIND = "heartbeat"
FILE = "HEARTBEAT.md"
LARGEST = 200_000  # bytes of it that are read
FATAL = frozenset(("auth", "billing", "budget", "config"))  # failures that the next beat would meet again
PREVIEW = 200


class Heartbeat:
    """The heartbeat of one agent."""

    def __init__(self, agent: str, settings: HeartbeatSettings, doors: Doors, events: Events) -> None:
        self.agent = agent
        self.settings = settings
        self._doors = doors
        self._events = events
        self._beat = Beat()
        self._task: asyncio.Task[None] | None = None
        self._wanted = False
        self.on = True
        self.last: dict[str, Any] | None = None  # the last one that ran or failed
        self.why = ""  # why the last look led to none

    @property
    def key(self) -> SessionKey:
        """The session it belongs to."""
        typed = self.settings.session
        found = session_key(typed, self.agent) if typed and typed != "main" else None
        return found or main_key(self._doors.settings, self.agent)

    async def load(self, now: int) -> None:
        """What is remembered. A beat that ran when we were stopped is the inbox's to finish."""
        kept = await self._doors.store.kept(KIND, self.agent)
        try:
            self._beat = msgspec.json.decode(kept.data, type=Beat) if kept is not None else Beat(last=now)
        except msgspec.DecodeError:
            self._beat = Beat(last=now)
        # A start is a new chance for what had stopped: keys and budgets may have changed.
        self._beat = msgspec.structs.replace(self._beat, item="", stopped="", last=min(self._beat.last, now))

    def request(self) -> None:
        """Beat with the next tick, whatever is new."""
        self._wanted = True

    def enable(self, on: bool) -> None:
        """On also starts one that has stopped itself."""
        self.on = on
        if on and self._beat.stopped:
            self._beat = msgspec.structs.replace(self._beat, stopped="")

    def shown(self) -> dict[str, Any]:
        """As configured, and as it stands."""
        own, beat = self.settings, self._beat
        every = f"{own.every / 60:g}m"
        made = {"agentId": self.agent, "enabled": self.on, "every": every, "everyMs": int(own.every * 1000)}
        made |= {"prompt": own.prompt or HEARTBEAT, "target": own.target, "ackMaxChars": own.ack_chars}
        made |= {"count": beat.count, "costUsd": round(beat.cost, 6), "lastReason": self.why}
        return {**made, **({"stopped": beat.stopped} if beat.stopped else {})}

    async def tick(self, now: int) -> int | None:
        """Look, and beat if it is worth it. Returns when the next one is due."""
        if self._task is None:
            verdict = await self._look(now)
            self.why = verdict.why
            if verdict.beat:
                await self._ask(verdict, now)
        return max(now + 1000, self._beat.last + int(self.settings.every * 1000))

    async def _look(self, now: int) -> Verdict:
        own = self.settings
        if not self.on:
            return Verdict(False, "disabled")
        if own.hours is not None and not own.hours.open(now, _zone(own.timezone)):
            return Verdict(False, "quiet-hours")
        if self._doors.running(str(self.key)) or (own.skip_busy and self._doors.busy()):
            return Verdict(False, "requests-in-flight")
        text = await asyncio.to_thread(_read, os.path.join(self._workspace, FILE))
        page = read(text, lambda words: durations.seconds(words, "m"))
        if self._wanted and not self._beat.stopped:
            self._wanted = False
            return Verdict(True, "requested", page.tasks)
        return judge(self._beat, await self._seen(page, text, now))

    async def _seen(self, page: Page, text: str, now: int) -> Look:
        row = await self._doors.store.session(str(self.key))
        talked = Record.decode(row.data).lastInteractionAt or 0 if row is not None else 0
        digest = _digest(text) if page.text or page.tasks else ""
        return Look(now, self.settings.every, page, digest, self._events.waiting(str(self.key)), talked)

    @property
    def _workspace(self) -> str:
        return self._doors.settings.agents[self.agent].workspace

    async def _ask(self, verdict: Verdict, now: int) -> None:
        text = await asyncio.to_thread(_read, os.path.join(self._workspace, FILE))
        asked = {**self._beat.tasks, **{task.name: now for task in verdict.tasks}}
        page = read(text, lambda words: durations.seconds(words, "m"))
        digest = _digest(text) if page.text or page.tasks else ""
        ends: list[AgentEnd] = []
        try:
            accepted = await self._doors.submit(await self._message(verdict, now), _listener(ends))
        except Draining:
            return
        except PalinurusError as exc:
            self._report(now, "failed", reason=exc.message)
            return
        await self._save(last=now, digest=digest, tasks=asked, item=accepted.id)
        self._task = asyncio.ensure_future(self._end(accepted.id, now, verdict.why, ends))

    async def _message(self, verdict: Verdict, now: int) -> Inbound:
        own, beat = self.settings, self._beat
        parsed = parse(own.prompt or HEARTBEAT)
        lines = [parsed.rest.strip() or HEARTBEAT]
        if verdict.tasks:
            lines += ["", "Tasks that are due:", *(f"- {task.name}: {task.prompt}" for task in verdict.tasks)]
        here = datetime.fromtimestamp(now / 1000, _zone(own.timezone))
        lines += ["", f"Current time: {here:%A, %Y-%m-%d %H:%M} ({here.tzname()})"]
        key = SessionKey(self.agent, f"cron:heartbeat:run:{now}") if own.isolated else self.key
        way = await self._way()
        said = beat.said if now - beat.said_at < DAY else ""
        # Directives of the configured prompt act; what is told along with it never does.
        directives = {**inline(parsed), **({"reasoning": "on"} if own.reasoning else {})}
        options = {
            TRIGGER: "heartbeat",
            "heartbeat": {"ackMaxChars": own.ack_chars, "said": said, "reasoning": own.reasoning},
            "inline": directives,
            "timeoutSeconds": own.timeout,
            "queue": "followup",
            **({"model": own.model} if own.model else {}),
            **({"promptMode": "minimal"} if own.light else {}),
        }
        sender = Sender("heartbeat", owner=True, allowed=True)
        event, push = f"heartbeat:{self.agent}:{now}", way.push
        return Inbound(
            way.target, sender, event, "\n".join(lines), now, session=str(key), agent=self.agent, options=options,
            system=True, push=push,
        )  # fmt: skip

    async def _way(self) -> Way:
        own = self.settings
        if own.target == "last":
            return await last_way(self._doors, self.key)
        if own.target == "none" or own.target not in self._doors.channels():
            return Way(Target("heartbeat", str(self.key)), False)
        return Way(Target(own.target, own.to, own.account), True)

    async def _end(self, item: str, began: int, why: str, ends: list[AgentEnd]) -> None:
        try:
            row = await self._doors.wait(item)
            spent = [s for s in await self._doors.store.spent(began, row.session) if s.item == item]
            cost = sum(s.cost or 0.0 for s in spent)
            beat = self._beat
            changes: dict[str, Any] = {"item": "", "cost": beat.cost + cost, "count": beat.count + 1}
            word = last_word(ends[-1].messages) if ends else ""
            judged = ack(word or row.note, limit=self.settings.ack_chars)
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
            elif judged.drop or row.outcome == "silent":
                status, changes["quiet"] = "ok-token", beat.quiet + 1
            elif judged.text == beat.said and began - beat.said_at < DAY:
                status, changes["quiet"] = "duplicate", beat.quiet + 1
            else:
                status, more["preview"] = "sent", judged.text[:PREVIEW]
                changes |= {"quiet": 0, "said": judged.text[:4000], "said_at": began}
            await self._save(**changes)
            self._report(began, status, **more, durationMs=row.settled - row.claimed)
        except PalinurusError as exc:
            log.warning("heartbeat of %s: %s", self.agent, exc.message)
        except Exception:  # task boundary: logged; the next beat comes
            log.exception("heartbeat of %s: its end could not be handled", self.agent)
        finally:
            self._task = None

    def _report(self, now: int, status: str, **more: Any) -> None:
        self.last = {"ts": now, "status": status, "agentId": self.agent, "sessionKey": str(self.key), **more}
        self._doors.tell("heartbeat", self.last)

    async def _save(self, **changes: Any) -> None:
        self._beat = msgspec.structs.replace(self._beat, **changes)
        await self._doors.store.keep(KIND, self.agent, msgspec.json.encode(self._beat))

    async def close(self) -> None:
        """Stop waiting."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _listener(ends: list[AgentEnd]) -> Callable[[Event], None]:
    def hear(event: Event) -> None:
        if isinstance(event, AgentEnd):
            ends.append(event)

    return hear


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def _digest(text: str) -> str:
    return blake2s(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _zone(name: str) -> tzinfo:
    return zone(name) or datetime.now(UTC).astimezone().tzinfo or UTC
