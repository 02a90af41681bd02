"""What a node of a fleet does besides: it says which agents it runs, goes when it is asked to, tells of commands whose
node is gone, and tells senders whose agent nobody runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from palinurus import __version__
from palinurus.agent.settle import to_outgoing_rows
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.events import RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.outbound import Reply
from palinurus.errors import StateError
from palinurus.store.fleet import NO_AGENT, FleetPort, MemberFacts
from palinurus.store.news import StoreNews
from palinurus.store.port import Store
from palinurus.tasks import TaskSet
from palinurus.tools.commands.table import CommandTable

log = logging.getLogger(__name__)

KIND = "workspace"  # of the records that say which node has an agent's
# What may differ from node to node: sections of their own, and wherever it stands a path of the machine.
_OWN = ("store", "gateway", "logging", "diagnostics", "$schema", "meta")
_PATHS = ("workspace", "home", "dir")
_WAITS = (
    "⚠️ Your message is kept, but the machine that has this agent's workspace is away. It is answered when that is back."
)


def make_node_facts(raw: Mapping[str, Any]) -> MemberFacts:
    """What this node says of itself; `raw` is its config, of which a digest is told."""
    shared = _drop_paths({name: value for name, value in raw.items() if name not in _OWN})
    text = msgspec.json.encode(shared, order="deterministic")
    return MemberFacts(__version__, blake2b(text, digest_size=4).hexdigest())


def _drop_paths(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _drop_paths(one) for name, one in value.items() if name not in _PATHS}
    return [_drop_paths(one) for one in value] if isinstance(value, list) else value


async def choose_served(store: Store, fleet: FleetPort, settings: Settings) -> Settings:
    """Which agents' messages this node runs, told to the others: those that the config names; all, if workspaces are
    shared; else those whose workspace is here: the first node that asks for an agent has it."""
    told = settings.store
    if not told.serves and not told.shared_workspaces:
        served = await _claim_workspaces(store, fleet.name, settings)
        told = msgspec.structs.replace(told, serves=served)
    await fleet.serve(told.serves)
    return msgspec.structs.replace(settings, store=told)


async def _claim_workspaces(store: Store, node: str, settings: Settings) -> tuple[str, ...]:
    mine = []
    for agent in settings.agents:
        if not await store.put_record(KIND, agent, node.encode(), expect=None):
            found = await store.get_record(KIND, agent)
            if found is None or found.data != node.encode():
                continue
        mine.append(agent)
    log.info("agents that run here: %s (store.serves, store.sharedWorkspaces)", ", ".join(mine) or "none")
    return tuple(mine) or (NO_AGENT,)


class FleetKeeper:
    """Implements `inbox.feed.RunFollower`. `serves`: is a session's agent run here? `leave` ends this gateway in order,
    `replied` wakes who sends."""

    def __init__(self, fleet: FleetPort, store: Store, clock: Clock, every: float, processes: CommandTable) -> None:
        self._fleet = fleet
        self._store = store
        self._clock = clock
        self._every = every
        self._processes = processes
        self._tasks = TaskSet("looking after the fleet")
        self.leave: Callable[[], None] = lambda: None
        self.replied: Callable[[tuple[Reply, ...]], None] = lambda replies: None
        self.serves: Callable[[str], bool] = lambda session: True

    def start(self) -> None:
        self._tasks.start(self._look())

    async def retire(self) -> None:
        """This node is about to go."""
        try:
            await self._fleet.retire()
        except StateError as error:
            log.warning("what this node does alone is given back at the end: %s", error.message)

    async def close(self) -> None:
        await self._tasks.close()

    def hear(self, news: StoreNews) -> None:
        """An order for this node?"""
        if news.what == "drain" and news.key == self._fleet.name:
            log.warning("this node is asked to finish what it runs, and to go")
            self.leave()

    async def _look(self) -> None:
        while True:
            await self._clock.sleep(self._every)
            try:
                alive = {node.id for node in (await self._fleet.report()).nodes}
                if count := await self._processes.tell_lost(alive):
                    log.warning("%d commands of a node that is gone: their sessions are told", count)
            except StateError as error:
                log.warning("the fleet could not be looked at: %s", error.message)

    async def _tell_unserved(self, session: str, inbound: Inbound) -> None:
        """Once while its session's first message waits: the notice is named after that."""
        report = await self._fleet.report()
        agent = session.partition(":agent:")[2] or session.removeprefix("agent:")
        waiting = await self._store.list_waiting(session)
        if waiting and agent.partition(":")[0] in {one.agent for one in report.unserved}:
            first = waiting[0].id
            said = (Reply(inbound.target, _WAITS, f"{first}.waits", "notice", reply_to=inbound.reply_to),)
            await self._store.post_replies(to_outgoing_rows(said, first, self._clock.now()))
            self.replied(said)

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        if inbound.push and not self.serves(session):
            self._tasks.start(self._tell_unserved(session, inbound))

    def on_started(self, item: str, session: str, inbound: Inbound) -> None:
        pass

    def on_event(self, item: str, event: RunEvent) -> None:
        pass

    def on_merged(self, item: str, into: str) -> None:
        pass

    def on_ended(self, item: str) -> None:
        pass
