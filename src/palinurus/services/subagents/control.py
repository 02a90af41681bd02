"""The sub-agents of this program: starting, listing, steering and ending them. Implements `SubagentsPort`.

A sub-agent is a session; its task, what it is steered with and its result are rows of the inbox like any message.
At kill -9: one that is on disk goes on at the next start, and its result is told then; one that is not never was.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec

from palinurus.clock import Clock
from palinurus.core.types.caller import ADMIN
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import parse_session_key
from palinurus.core.types.messages import ToolResult
from palinurus.crashpoints import pass_crashpoint
from palinurus.errors import PalinurusError, StateBroken
from palinurus.services.inbox import InboxPort
from palinurus.services.subagents import spawn, texts
from palinurus.services.subagents.follow import SubagentFollower
from palinurus.services.subagents.registry import (
    SubagentRecord,
    SubagentRegistry,
    identify_turn,
    make_run_id,
)
from palinurus.services.subagents.spawn import SpawnPlan, SpawnRefusal, SubagentParts
from palinurus.sessions.record import SessionRecord
from palinurus.tasks import TaskSet
from palinurus.tools.program.subagents import SpawnOrder, SteeringWords


class SubagentTimer:
    """When runs of sub-agents begin and how long they may take. Implements `inbox.feed.RunFollower`."""

    def __init__(self, registry: SubagentRegistry, clock: Clock, inbox: InboxPort) -> None:
        self._registry = registry
        self._clock = clock
        self._inbox = inbox
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks = TaskSet("the record of a sub-agent")

    def on_started(self, item: str, session: str, inbound: Inbound) -> None:
        """Its clock starts."""
        child = self._registry.at(session)
        if child is None or not child.active:
            return
        if not child.started:
            self._later(child.id, started=self._clock.now())
        if child.timeout:
            loop = asyncio.get_running_loop()
            self._timers[item] = loop.call_later(child.timeout, self._late, item)

    def _late(self, item: str) -> None:
        self._tasks.start(self._inbox.stop_item(item, "timeout"))

    def on_ended(self, item: str) -> None:
        """Its clock stops."""
        timer = self._timers.pop(item, None)
        if timer is not None:
            timer.cancel()

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        """Whatever is said to one that is at work is part of its work: its end is now the end of that."""
        child = self._registry.at(session)
        if child is not None and child.active and child.item and child.item != item:
            self._later(child.id, item=item, runs=child.runs + 1)

    def _later(self, ident: str, **changes: Any) -> None:
        self._tasks.start(self._registry.change(ident, **changes))

    on_event = None

    def on_merged(self, item: str, into: str) -> None:
        """Of no interest."""

    def close(self) -> None:
        """Time stops."""
        for timer in self._timers.values():
            timer.cancel()


log = logging.getLogger(__name__)

SWEEP = 60.0  # seconds between two looks for what may be forgotten


class SubagentControl:
    """One per program. `watch` is to follow all runs."""

    def __init__(self, parts: SubagentParts) -> None:
        self._parts = parts
        self._inbox = parts.inbox
        self.registry = SubagentRegistry(parts.store)
        self.lives = SubagentFollower(self.registry, parts)
        self._before: set[str] = set()  # those that a former process started
        self.watch = SubagentTimer(self.registry, parts.clock, parts.inbox)
        self._tasks = TaskSet("looking after sub-agents")
        self._sweeping: asyncio.Task[None] | None = None

    # the program's life

    async def load(self) -> int:
        """At start, before anything runs. Returns how many are not done with. Raises StateError kinds."""
        found = await self.registry.load()
        self._before = {child.id for child in found}
        return sum(child.state != "told" for child in found)

    def resume(self, alone: bool = True) -> None:
        """At start, when the lanes have their work back: go on with what was left; beside other nodes, with what this
        node left itself."""
        for child in self.registry.every():
            if alone or child.node == self._parts.store.node:
                self._go_on(child)
        if alone:
            self._keep()

    def _go_on(self, child: SubagentRecord) -> None:
        if child.killed and child.active:
            self._tasks.start(self._inbox.stop(child.session, "stop", children=False))
        self.lives.start(child.id)

    def _keep(self) -> None:
        if self._sweeping is None:
            self._sweeping = self._tasks.start(self._keeping())

    async def take_over(self) -> None:
        """A node is gone: what it followed is followed here. Raises StateError kinds."""
        here = set(await self._parts.store.list_nodes())
        for child in self.registry.every():
            if child.node not in here and child.state != "told":
                self._go_on(await self.registry.change(child.id, node=self._parts.store.node))
        self._keep()

    async def close(self) -> None:
        """At the end. What is open is taken up at the next start."""
        self.watch.close()
        await self._tasks.close()
        await self.lives.close()

    async def _keeping(self) -> None:
        while True:
            await self.sweep()
            await self._parts.clock.sleep(SWEEP)

    async def sweep(self) -> None:
        """Forget those whose results were told long ago, with their sessions if the config says so."""
        now = self._parts.clock.now()
        for child in self.registry.every():
            key = parse_session_key(child.session)
            own = self._parts.settings.subagents.get(key.agent if key else "")
            after = own.archive_after if own else 0.0
            old = now - child.ended > max(after * 1000, texts.RECENT * 60_000)
            if child.state != "told" or not (old or child.delete):
                continue
            try:
                if after or child.delete:
                    await self.lives.remove(child)
                if old:
                    await self.registry.drop(child.id)
            except PalinurusError as exc:  # again in a minute
                log.warning("sub-agent %s cannot be forgotten: %s", child.id, exc.message)

    # starting

    async def spawn(self, order: SpawnOrder) -> dict[str, Any]:
        """See the port."""
        known = self.registry.get(make_run_id(order.caller, order.asker, order.call, order.task))
        if known is not None:
            return _accepted(known)
        lost = await self._lost(order)
        if lost is not None:
            return _accepted(lost, "it was started before a restart of the gateway, by this very turn")
        try:
            planned = await spawn.plan_spawn(self._parts, order)
        except StateBroken as exc:
            planned = SpawnRefusal("error", exc.message)
        if isinstance(planned, SpawnPlan):
            full = spawn.check_count(self._parts.settings, planned.caller, self.registry.active(order.caller))
            planned = SpawnRefusal("forbidden", full) if full else planned
        if isinstance(planned, SpawnRefusal):
            return {"status": planned.status, "error": planned.error}
        self.registry.reserve(planned.child)  # at once: siblings of the same batch are counted
        # A turn that is stopped meanwhile must not leave half a child behind.
        return await asyncio.shield(asyncio.ensure_future(self._born(planned)))

    async def _born(self, planned: SpawnPlan) -> dict[str, Any]:
        ident, settings = planned.child.id, self._parts.settings
        try:
            child, note = await spawn.furnish_session(self._parts, planned)
            child = msgspec.structs.replace(child, node=self._parts.store.node)
            await self.registry.write(child)
            pass_crashpoint("child.recorded")
            may = spawn.can_start_subagents(settings, planned.key.agent, child.depth)
            accepted = await self._inbox.submit(texts.make_task_message(child, may, self._parts.clock.now()))
        except (PalinurusError, OSError) as exc:
            await self._unborn(ident)
            return {"status": "error", "error": exc.message if isinstance(exc, PalinurusError) else str(exc)}
        child = await self.registry.change(ident, item=accepted.id, state="open", runs=1)
        pass_crashpoint("child.accepted")
        self.lives.start(ident)
        self._parts.hooks.observe("subagent_spawned", _told(child))
        self._parts.hooks.observe("session_start", {"sessionKey": child.session, "agentId": planned.key.agent})
        return _accepted(child, note)

    async def _unborn(self, ident: str) -> None:
        try:
            await self.registry.drop(ident)
        except PalinurusError as exc:
            log.error("sub-agent %s was not started, and cannot be forgotten: %s", ident, exc.message)

    async def _lost(self, order: SpawnOrder) -> SubagentRecord | None:
        """One that this very turn started before the gateway was killed, without learning of it."""
        turn = identify_turn(order.asker)
        for child in self.registry.of(order.caller):
            if child.id not in self._before or identify_turn(child.asker) != turn or child.task != order.task:
                continue
            if not await self._learnt(order.caller, child.call):
                self._before.discard(child.id)
                return child
        return None

    async def _learnt(self, session: str, call: str) -> bool:
        row, key = await self._parts.store.session(session), parse_session_key(session)
        if row is None or key is None:
            return False
        transcript = await self._parts.transcripts.load(SessionRecord.decode(row.data).path(key.agent))
        results = (m for m in transcript.messages() if isinstance(m, ToolResult) and m.toolCallId == call)
        return any(not result.isError for result in results)

    # looking after them

    def count_waiting(self, caller: str) -> int:
        """See the port."""
        return sum(child.state != "told" for child in self.registry.of(caller))

    def describe_open(self, session: str) -> tuple[str, ...]:
        """What a session has open, a line each: said again when its conversation is shortened."""
        return tuple(
            f"Sub-agent “{child.name}” ({child.session}) is {texts.describe_status(child)}; its result will be pushed"
            for child in self.registry.of(session)
            if child.state != "told"
        )

    def list_recent(self, caller: str, minutes: int = texts.RECENT) -> list[SubagentRecord]:
        """Those of a session that are in its list, in the order of their numbers."""
        now = self._parts.clock.now()
        return [child for child in self.registry.of(caller) if texts.is_recent(child, now, minutes)]

    async def rows(self, caller: str, minutes: int = texts.RECENT) -> list[dict[str, Any]]:
        """The list."""
        listed, now = self.list_recent(caller, minutes), self._parts.clock.now()
        costs = [await self.lives.cost(child) for child in listed]
        return [texts.to_list_row(n, c, costs[n - 1], now) for n, c in enumerate(listed, 1)]

    async def list_subagents(self, caller: str, minutes: int) -> dict[str, Any]:
        """See the port."""
        rows = await self.rows(caller, minutes)
        active = [one for one in rows if one["status"] in ("running", "queued", "stopping")]
        recent = [one for one in rows if one not in active]
        text = "\n".join(texts.format_list_row(one) for one in rows) or "no sub-agents"
        return {"status": "ok", "total": len(rows), "active": active, "recent": recent, "text": text}

    def find(self, caller: str, target: str) -> list[SubagentRecord] | str:
        """Which of the session's own somebody means, or why none."""
        return texts.find_subagents(target, self.list_recent(caller), self.registry.below(caller))

    async def kill(self, caller: str, target: str, *, tell: bool = False) -> dict[str, Any]:
        """See the port. `tell`: the session is told as of any other end; else it knows from the answer."""
        if refused := self._read_only(caller):
            return refused
        found = self.find(caller, target)
        if isinstance(found, str):
            return {"status": "error", "error": found}
        family = {c.id: c for child in found for c in (child, *self.registry.below(child.session))}
        named = frozenset(child.id for child in found) if tell else frozenset()
        killed = await self.lives.stop(family.values(), tell=named)
        if not killed:
            return {"status": "error", "error": "it has ended already"}
        return {"status": "ok", "killed": killed, "targets": [child.id for child in found]}

    async def stop(self, session: str) -> int:
        """Everything that a session started ends, quietly. Returns how many that were."""
        return await self.lives.stop(self.registry.below(session), wait=False)

    async def steer(self, caller: str, words: SteeringWords) -> dict[str, Any]:
        """See the port. Its run is interrupted; a new one goes on with all it knows, and with the message."""
        target, message = words.target, words.message
        if refused := self._read_only(caller):
            return refused
        found = self.find(caller, target)
        if isinstance(found, str):
            return {"status": "error", "error": found}
        if len(found) > 1:
            return {"status": "error", "error": "one at a time"}
        child = found[0]
        if not child.active or child.killed:
            return {"status": "error", "error": "it has ended already; start a new one"}
        if barred := _explain_barred(child, words):
            return {"status": "forbidden", "error": barred}
        old, source = child.item, texts.choose_source(tuple(filter(None, (child.source, *words.taint))))
        again = {"text": message, "round": child.round + 1, "item": "", "runs": 0, "source": source}
        child = await self.registry.change(child.id, state="new", **again)
        if old:
            await self._inbox.stop_item(old, "steer")
        self.lives.poke(child.id)
        return {**_accepted(child), "label": child.name}

    async def send(self, child: SubagentRecord, words: SteeringWords, event: str) -> str:
        """Say something to one without interrupting it; one that has ended goes on, and its result is told again."""
        message = words.message
        if barred := _explain_barred(child, words):
            return barred
        if not child.active:
            again = {"text": message, "round": child.round + 1, "item": "", "runs": 0, "tells": 0, "note": ""}
            fresh = {"outcome": None, "ended": 0, "killed": False, "quiet": False}
            await self.registry.change(child.id, state="new", **again, **fresh)
            self.lives.start(child.id)
            return "it goes on with your message"
        may = spawn.can_start_subagents(self._parts.settings, child.session.split(":")[1], child.depth)
        said = texts.make_task_message(child, may, self._parts.clock.now())
        accepted = await self._inbox.submit(
            msgspec.structs.replace(
                said, text=message, event=event, options=msgspec.structs.replace(said.options, queue="steer")
            )
        )
        await self.lives.extend_to_item(child.session, accepted.id)
        return "sent"

    def _read_only(self, caller: str) -> dict[str, Any] | None:
        """One that cannot start others may only look."""
        own, key = self.registry.at(caller), parse_session_key(caller)
        depth = own.depth if own else (key.depth if key else 0)
        if depth and key and not spawn.can_start_subagents(self._parts.settings, key.agent, depth):
            return {"status": "forbidden", "error": "a sub-agent that cannot start others may only list"}
        return None


def _explain_barred(child: SubagentRecord, words: SteeringWords) -> str:
    """Why this person does not say what it does: it does that with the rights of who started it. "" if they may."""
    same = (words.sender.id, words.channel) == (child.asker.sender.id, child.asker.target.channel)
    return "" if same or words.sender.may(ADMIN) else "only who started it, or the owner, may: it has their rights"


def _accepted(child: SubagentRecord, note: str = "") -> dict[str, Any]:
    body: dict[str, Any] = {
        "status": "accepted",
        "childSessionKey": child.session,
        "runId": child.id,
        "mode": "run",
        "model": child.model,
    }
    return {**body, "note": note} if note else body


def _told(child: SubagentRecord) -> dict[str, Any]:
    """For hooks."""
    return {
        "childSessionKey": child.session,
        "agentId": child.session.split(":")[1],
        "label": child.label,
        "mode": "run",
        "requester": {"sessionKey": child.parent, "channel": child.asker.target.channel},
        "runId": child.id,
        "resolvedModel": child.model,
    }
