"""Every run of every session, shown to the clients that may see it. Follows the inbox; sends through the gateway.

Text is sent at most every 150 ms per run. What needs the disk (session rows, new transcript lines) is told by one
worker, in order, and only if somebody listens.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from palinurus.core.types.events import AgentEnd, MessageEnd, RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import parse_session_key
from palinurus.gateway.rpc import ALL_SESSIONS, make_session_topic
from palinurus.gateway.runs import EndedRun, RunPush, RunView
from palinurus.gateway.views import SessionReader, list_visible_entries, mark_run, project_entry
from palinurus.inbox.commands.command import CommandContext
from palinurus.inbox.message import CONTROL_LANE

if TYPE_CHECKING:
    from palinurus.gateway.clients import GatewayClients

log = logging.getLogger(__name__)

EVERY = 0.15  # seconds between two deltas of a run
ENDED = 1000  # runs remembered for agent.wait, and sessions that somebody looks at
SETTLING = 200  # looks, 5 ms apart
OURS = frozenset({"webchat", "gateway"})  # channels whose event ids are their clients' run ids


class RunBroadcaster:
    """Implements `inbox.feed.RunFollower`."""

    def __init__(self, gateway: GatewayClients, program: CommandContext, reader: SessionReader) -> None:
        self._gateway = gateway
        self._program = program
        self._reader = reader
        reader.shown = self.running
        self._runs: dict[str, RunView] = {}  # by inbox id
        self._names: dict[str, str] = {}  # run id -> inbox id
        self._called: OrderedDict[str, str] = OrderedDict()  # inbox id -> run id, of those that were told of lately
        self._aliases: dict[str, list[str]] = {}  # inbox id -> run ids of messages that were taken into its run
        self._ended: OrderedDict[str, EndedRun] = OrderedDict()
        self._starters: OrderedDict[str, str] = OrderedDict()  # run id -> connection
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._chores: deque[Callable[[], Coroutine[Any, Any, None]]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._dirty: set[str] = set()
        self._seen: dict[str, tuple[str, int]] = {}  # session -> (session id, transcript entries told)

    # --- what methods ask ------------------------------------------------------------------------------------

    def expect_run(self, run: str, conn: str) -> None:
        """The run `run`, about to be submitted, was asked for by this connection: it gets the tool events, if it wants
        them, also when it comes back after having been gone."""
        if not any(c.conn == conn and "tool-events" in c.caps for c in self._gateway.clients()):
            return
        self._starters[run] = conn
        while len(self._starters) > ENDED:
            self._starters.popitem(last=False)

    def running(self, session: str) -> list[RunView]:
        """The runs of a session that are going now, oldest first."""
        return [run for run in self._runs.values() if run.session == session and run.started]

    def all_runs(self) -> list[RunView]:
        """All runs of all sessions that go or wait, oldest first."""
        return list(self._runs.values())

    def run(self, ident: str) -> RunView | None:
        """A run by what its client calls it, or by its inbox id, if it is known and not over."""
        return self._runs.get(self._names.get(ident, ident))

    def name_run(self, item: str) -> str:
        """What clients call the run of an inbox id, if it was lately; else "". A page knows by it which lines of the
        history it has seen live."""
        return self._called.get(item, "")

    def end(self, ident: str) -> EndedRun | None:
        """How a run ended, if that was lately."""
        return self._ended.get(ident)

    async def wait_settled(self, ident: str) -> None:
        """A run's outcome is on disk: wait until its last event was seen here too, which is a moment later."""
        for _ in range(SETTLING):
            if self.end(ident) is not None or self.run(ident) is None:
                return
            await self._program.clock.sleep(0.005)

    # --- the follower ----------------------------------------------------------------------------------------

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        """A run that will be; known from now on."""
        if item in self._runs:
            return
        name = session.partition(":")[2] if session.partition(":")[0].partition("/")[0] == CONTROL_LANE else session
        key = parse_session_key(name)
        if key is None:
            return
        ident = inbound.event if inbound.target.channel in OURS and inbound.event else item
        run = RunView(ident, item, str(key), key.agent, inbound=inbound)
        run.conn = self._starters.pop(ident, "")
        self._runs[item] = run
        self._names[ident] = item
        self._called[item] = ident
        while len(self._called) > ENDED:
            self._called.popitem(last=False)

    on_started = on_accepted

    def on_event(self, item: str, event: RunEvent) -> None:
        run = self._runs.get(item)
        if run is None:
            return
        for push in run.feed(event, self._program.clock.now()):
            self._push(run, push)
        if run.waiting and item not in self._timers:
            self._flush(item)
        if isinstance(event, MessageEnd | AgentEnd):
            self._appended(run.session, item)
        if isinstance(event, AgentEnd):
            self._ended.update(dict.fromkeys((run.id, *self._aliases.get(item, ())), run.close(event)))
            while len(self._ended) > ENDED:
                self._ended.popitem(last=False)

    def on_merged(self, item: str, into: str) -> None:
        """A message that was taken into another's run has no events of its own; its client is told which run."""
        run, other = self._runs.pop(item, None), self._runs.get(into)
        if run is None:
            return
        self._names[run.id] = into
        self._aliases.setdefault(into, []).append(run.id)
        if other is not None:
            payload = {"runId": run.id, "sessionKey": run.session, "into": other.id, "phase": "steered"}
            self._push(run, RunPush("session", "session.operation", {**payload, "operation": "steer"}))

    def on_ended(self, item: str) -> None:
        self._runs.pop(item, None)
        self._aliases.pop(item, None)
        if (timer := self._timers.pop(item, None)) is not None:
            timer.cancel()
        if len(self._names) > 4 * ENDED:
            self._names = {name: at for name, at in self._names.items() if at in self._runs}

    # --- sending ---------------------------------------------------------------------------------------------

    def _flush(self, item: str) -> None:
        """Send what waits, and look again in a moment."""
        self._timers.pop(item, None)
        run = self._runs.get(item)
        if run is None or not run.waiting:
            return
        for push in run.flush(self._program.clock.now()):
            self._push(run, push)
        self._timers[item] = asyncio.get_running_loop().call_later(EVERY, self._flush, item)

    def _push(self, run: RunView, push: RunPush) -> None:
        if push.audience == "all":
            self._gateway.broadcast(push.event, push.payload, drop_if_slow=push.payload.get("state") == "delta")
        elif push.audience == "tool":
            if run.conn:
                self._gateway.send(run.conn, "agent", push.payload)
            self._gateway.tell([ALL_SESSIONS, make_session_topic(run.session)], "session.tool", push.payload)
        elif self._gateway.attended:
            payload = {"sessionKey": run.session, "agentId": run.agent, **push.payload}
            self.enqueue(lambda: self._told(push.event, run.session, payload))

    def announce_change(self, session: str, reason: str) -> None:
        """Something about a session is different now: those who follow sessions are told, with its row."""
        payload = {"sessionKey": session, "reason": reason, "ts": self._program.clock.now()}
        if self._gateway.attended:
            self.enqueue(lambda: self._told("sessions.changed", session, payload))

    async def _told(self, event: str, session: str, payload: dict[str, Any]) -> None:
        topics = [ALL_SESSIONS, make_session_topic(session)]
        if not self._gateway.followers(topics):
            return
        if event == "sessions.changed" and payload.get("reason") != "delete":
            row = await self._reader.find_row(session)
            if row is not None:
                payload = {**row, **payload, "session": row, "goal": None}
                payload["hasActiveRun"] = self._reader.is_running(session)
        self._gateway.tell(topics, event, payload)

    def _appended(self, session: str, item: str) -> None:
        if not self._gateway.attended:
            self._seen.pop(session, None)
        elif session not in self._dirty:
            self._dirty.add(session)
            self.enqueue(lambda: self._lines(session, item))

    async def _lines(self, session: str, item: str) -> None:
        """Tell of transcript lines that were not told of yet; of a session nobody looked at before, those of `item`."""
        self._dirty.discard(session)
        topics = [ALL_SESSIONS, make_session_topic(session)]
        if not self._gateway.followers(topics):
            self._seen.pop(session, None)
            return
        record, transcript = await self._reader.read(session)
        if record is None or transcript is None:
            return
        shown = list_visible_entries(transcript)
        first = next((at for at, entry in enumerate(shown) if entry.item == item), len(shown))
        ident, told = self._seen.get(session, (record.sessionId, first))
        if ident != record.sessionId or told > len(shown):
            told = 0
        self._seen.pop(session, None)
        self._seen[session] = (record.sessionId, len(shown))
        if len(self._seen) > ENDED:  # of one that is forgotten the lines of its run are told
            del self._seen[next(iter(self._seen))]
        row = await self._reader.find_row(session) if told < len(shown) else None
        for number, entry in enumerate(shown[told:], told + 1):
            message = project_entry(entry, number)
            if run := self.name_run(entry.item):
                mark_run(message, run)
            payload = {
                "sessionKey": session,
                "message": message,
                "messageId": entry.id,
                "messageSeq": number,
                "session": row,
            }
            self._gateway.tell(topics, "session.message", payload)

    # --- the worker ------------------------------------------------------------------------------------------

    def enqueue(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have something done soon, after what was asked for before."""
        self._chores.append(work)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.ensure_future(self._work())

    async def _work(self) -> None:
        while self._chores:
            work = self._chores.popleft()
            try:
                await work()
            except Exception:  # task boundary: a line that cannot be told must not stop the others
                log.exception("an event could not be told")

    def close(self) -> None:
        """Nothing more is sent."""
        for timer in self._timers.values():
            timer.cancel()
        if self._worker is not None:
            self._worker.cancel()
