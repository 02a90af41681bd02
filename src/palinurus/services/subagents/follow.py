"""One sub-agent from its task to the moment its parent has been told: a task of ours follows each.

Every step is on disk before the next, and may be done again: a row of the inbox is made once however often it is
handed over, so what a killed gateway left is simply followed again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterable
from typing import Any

from palinurus.agent.marks import find_session_taint
from palinurus.core.stream.answer import read_answer
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import parse_session_key
from palinurus.core.types.messages import AssistantMessage, Message, ToolResult
from palinurus.crashpoints import pass_crashpoint
from palinurus.errors import NotFound, StateBroken
from palinurus.services.inbox import submit_until_stored
from palinurus.services.subagents import spawn, texts
from palinurus.services.subagents.registry import Outcome, SubagentRecord, SubagentRegistry
from palinurus.services.subagents.spawn import SubagentParts
from palinurus.sessions import lifecycle
from palinurus.sessions.entries import MessageEntry
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import Acceptance, InboxRow

log = logging.getLogger(__name__)

FIRST = 0.5  # seconds before the second try to hand a message over
AT_ONCE = 8  # results that wait in one session's queue
STOPPING = 5.0  # seconds that runs get to end when they are killed
NOTE = 500


class SubagentFollower:
    def __init__(self, registry: SubagentRegistry, parts: SubagentParts) -> None:
        self._registry = registry
        self._parts = parts
        self._inbox = parts.inbox
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._pokes: dict[str, asyncio.Event] = {}
        self._rooms: dict[str, asyncio.Semaphore] = {}

    def start(self, ident: str) -> None:
        """Follow it, unless somebody does."""
        task = self._tasks.get(ident)
        if task is None or task.done():
            self._pokes[ident] = asyncio.Event()
            self._tasks[ident] = asyncio.ensure_future(self._follow(ident))

    def poke(self, ident: str) -> None:
        """Its record has changed: look again."""
        if ident in self._pokes:
            self._pokes[ident].set()

    async def close(self) -> None:
        """Follow nobody. The records stay; the next start goes on."""
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=2)

    async def stop(
        self, children: Iterable[SubagentRecord], *, tell: frozenset[str] = frozenset(), wait: bool = True
    ) -> int:
        """Kill these: their runs, what waits behind, their commands. Those in `tell` are announced, the others not.

        On disk before anything is stopped. Returns how many were at work, after at most a few seconds if `wait`.
        """
        dying = [child for child in children if child.active]
        changes = (self._registry.change(c.id, killed=True, quiet=c.id not in tell) for c in dying)
        await asyncio.gather(*changes)
        await asyncio.gather(*(self._inbox.stop(child.session, "stop", children=False) for child in dying))
        for child in dying:
            self.poke(child.id)
        await asyncio.gather(*(self._parts.end_commands(child.session) for child in dying))
        deadline = self._parts.clock.monotonic() + STOPPING
        while wait and any(self._inbox.running(c.session) for c in dying) and self._parts.clock.monotonic() < deadline:
            await self._parts.clock.sleep(0.02)
        return len(dying)

    # from task to end

    async def _follow(self, ident: str) -> None:
        try:
            going = True
            while going:
                child = self._registry.get(ident)
                if child is None or child.state == "told":
                    break
                going = await (self._tell(child) if child.state == "ended" else self._live(child))
        except Exception:  # task boundary: the record stays, the next start takes it up
            log.exception("sub-agent %s: cannot be followed", ident)
        finally:
            if self._tasks.get(ident) is asyncio.current_task():
                self._tasks.pop(ident, None)
                self._pokes.pop(ident, None)

    async def _live(self, child: SubagentRecord) -> bool:
        """One step of one that is at work. False: the gateway is stopping."""
        if not child.item:
            if child.killed:
                await self._end(child, "killed")
                return True
            return await self._hand(child)
        if child.killed:
            # Again: its task may have come after the first time.
            await self._inbox.stop(child.session, "stop", children=False)
        try:
            row = await self._inbox.wait(child.item)
        except NotFound:
            await self._end(child, "error", "its message is gone")
            return True
        now = self._registry.get(child.id)
        if now is None or now.item != child.item:
            return True  # it goes on: somebody steered it, or one of its own has reported to it
        outcome, note = judge_end(now, row)
        if outcome not in ("killed", "timeout") and await self._waits(now):
            return True
        await self._end(now, outcome, note, row.settled)
        return True

    async def _waits(self, child: SubagentRecord) -> bool:
        """Until one of its own has reported, if there are any: their results make it go on."""
        open_ = [c.id for c in self._registry.of(child.session) if c.state != "told"]
        tasks: list[asyncio.Task[Any]] = [self._tasks[i] for i in open_ if i in self._tasks]
        if not tasks:
            return False
        poke: asyncio.Task[Any] = asyncio.ensure_future(self._pokes[child.id].wait())
        try:
            await asyncio.wait((*tasks, poke), return_when=asyncio.FIRST_COMPLETED)
        finally:
            poke.cancel()
        self._pokes[child.id].clear()
        return True

    async def _hand(self, child: SubagentRecord) -> bool:
        key = parse_session_key(child.session)
        agent = key.agent if key else ""
        may = spawn.can_start_subagents(self._parts.settings, agent, child.depth)
        accepted = await self._submitted(texts.make_task_message(child, may, self._parts.clock.now()))
        if isinstance(accepted, str):
            await self._end(child, "error", accepted)
        elif accepted is not None and self._is(child):
            await self._registry.change(child.id, item=accepted.id, state="open", runs=1)
        return accepted is not None

    def _is(self, child: SubagentRecord) -> bool:
        """Nobody has steered it meanwhile."""
        now = self._registry.get(child.id)
        return now is not None and now.round == child.round and not now.item

    async def _end(self, child: SubagentRecord, outcome: Outcome, note: str = "", at: int = 0) -> None:
        at = at or self._parts.clock.now()
        await self._registry.change(child.id, state="ended", outcome=outcome, note=note[:NOTE], ended=at)
        await self._parts.end_commands(child.session)  # nobody is left who could look after them
        if outcome != "ok":
            await self.stop(self._registry.below(child.session))
        told = {"targetSessionKey": child.session, "targetKind": "subagent", "runId": child.id, "outcome": outcome}
        self._parts.hooks.observe("subagent_ended", {**told, "reason": STATUS_REASONS[outcome], "error": note or None})

    # telling

    async def _tell(self, child: SubagentRecord) -> bool:
        """Put the result before the parent, once. False: the gateway is stopping."""
        result = None if child.quiet else await self.result(child)
        pass_crashpoint("child.ended")
        if result is not None:
            room = self._rooms.setdefault(child.parent, asyncio.Semaphore(AT_ONCE))
            async with room:
                told = await self._announce(child, result)
            if told is not True:
                return told is not None
        child = await self._registry.change(child.id, state="told")
        if child.delete:
            await self.remove(child)
        elif child.folder and not self._parts.settings.tools.attachments.keep:
            await asyncio.to_thread(spawn.remove_attachments, child.folder)
        return True

    async def _announce(self, child: SubagentRecord, result: str) -> bool | None:
        """True once the parent's turn about it is over. False: its queue dropped it. None: the gateway stops."""
        above, system = self._registry.at(child.parent), ""
        if above is not None:
            key = parse_session_key(above.session)
            may = spawn.can_start_subagents(self._parts.settings, key.agent if key else "", above.depth)
            system = texts.write_system_prompt(above, may)
        left = sum(c.state != "told" for c in self._registry.of(child.parent) if c.id != child.id)
        text = texts.write_report(child, result, await self.cost(child), left, boundary=secrets.token_hex(16))
        transcript = await self._transcript(child)
        seen = find_session_taint(transcript) if transcript is not None else ()
        accepted = await self._submitted(
            texts.make_announcement(child, text, system, seen, now=self._parts.clock.now())
        )
        if accepted is None:
            return None
        if isinstance(accepted, str):
            log.warning("session %s cannot be told of sub-agent %s: %s", child.parent, child.id, accepted)
            return True
        pass_crashpoint("child.announced")
        await self.extend_to_item(child.parent, accepted.id)
        row = await self._inbox.wait(accepted.id)
        if row.outcome == "refused":
            await self._registry.change(child.id, tells=child.tells + 1)
            return False
        return True

    async def extend_to_item(self, session: str, item: str) -> None:
        """A sub-agent has got a message: its end is now the end of that."""
        child = self._registry.at(session)
        if child is not None and child.active and child.item and child.item != item:
            await self._registry.change(child.id, item=item, runs=child.runs + 1)

    async def _submitted(self, inbound: Inbound) -> Acceptance | str | None:
        """Tries until it is on disk. A text: it can never be. None: the gateway is stopping."""
        return await submit_until_stored(
            self._inbox, inbound, self._parts.clock, "a message of a sub-agent", first=FIRST
        )

    async def cost(self, child: SubagentRecord) -> texts.SubagentCost:
        """What it used so far."""
        spent = await self._parts.store.list_usage(0, child.session)
        priced = [one.cost for one in spent if one.cost is not None]
        into = sum(one.input + one.cache_read + one.cache_write for one in spent)
        return texts.SubagentCost(into, sum(one.output for one in spent), sum(priced) if priced else None)

    async def result(self, child: SubagentRecord) -> str | None:
        """The last thing it said, else the last thing a tool gave it; None for a chosen silence."""
        transcript = await self._transcript(child)
        if transcript is None or not child.item:
            return ""
        try:
            row = await self._inbox.wait(child.item)
        except NotFound:  # its end says so
            return ""
        said = [e.message for e in transcript.entries_of(row.id) if isinstance(e, MessageEntry)]
        found = find_last_words(said)
        if found is None and child.outcome == "ok":
            # Silence about the last of its children's results takes nothing back that it said before.
            found = find_last_words(transcript.messages(), skip=True) if child.runs > 1 else None
            return found or None
        return found or ""

    async def _transcript(self, child: SubagentRecord) -> Transcript | None:
        record, key = await self._record(child.session), parse_session_key(child.session)
        return await self._parts.transcripts.load(record.path(key.agent)) if record and key else None

    async def _record(self, session: str) -> SessionRecord | None:
        row = await self._parts.store.session(session)
        try:
            return SessionRecord.decode(row.data) if row else None
        except StateBroken:
            return None

    async def remove(self, child: SubagentRecord) -> None:
        """Forget its session; the transcript is archived. One that is at work again stays."""
        record, key = await self._record(child.session), parse_session_key(child.session)
        if record is not None and key is not None and not self._inbox.running(child.session):
            self._parts.transcripts.forget(record.path(key.agent))
            home, now = self._parts.settings.home, self._parts.clock.now()
            await lifecycle.delete_session(home, self._parts.store, key, record, now=now)
        await asyncio.to_thread(spawn.remove_attachments, child.folder)


STATUS_REASONS: dict[Outcome, str] = {
    "ok": "completed",
    "error": "failed",
    "timeout": "timed out",
    "killed": "killed",
    "stopped": "aborted",
}


def judge_end(child: SubagentRecord, row: InboxRow) -> tuple[Outcome, str]:
    """How it ended, by what the program saw of it; and why, if it failed."""
    if child.killed:
        return "killed", ""
    if row.outcome in ("answered", "silent"):
        return "ok", ""
    if row.outcome == "aborted":
        return "stopped", ""
    return ("timeout", "") if row.note == "timeout" else ("error", row.note)


def find_last_words(messages: Iterable[Message], *, skip: bool = False) -> str | None:
    """The newest visible text of the model, else of a tool. None: the newest is a chosen silence (`skip`: look on)."""
    output = ""
    for message in reversed(list(messages)):
        if isinstance(message, ToolResult):
            output = output or message.text.strip()
        elif isinstance(message, AssistantMessage) and message.text.strip():
            seen = read_answer(message.text)
            quiet = seen.silent or seen.text.strip() == texts.SKIP
            if quiet and not skip:
                return None
            if seen.text and not quiet:
                return seen.text
    return output
