"""The App: `open` puts it together (`wiring.py` says who plugs into whom), `start` lets it run, `stop` closes what was
opened, backwards. No decision about a message is made here."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from palinurus import late
from palinurus.app import plugins
from palinurus.app.channels import find_account
from palinurus.app.commons import LIFE, FleetCommons
from palinurus.app.wiring import AppParts
from palinurus.clock import Clock
from palinurus.config.load import LoadedConfig
from palinurus.config.settings import Settings
from palinurus.core.levels.thinking import ThinkingRow
from palinurus.core.schedule.belief import BelievedTime, believe_time
from palinurus.core.types.channel import Channel, ChannelHttpRequest, ChannelHttpResponse
from palinurus.core.types.keys import parse_session_key
from palinurus.core.types.model import Model
from palinurus.inbox.attachments import sweep_media_files
from palinurus.inbox.feed import RunFollower
from palinurus.plugins.api import PluginContributions
from palinurus.providers.probe import probe_ollama, probe_windows
from palinurus.providers.thinking import resolve_thinking_policy
from palinurus.services.adopt import adopt_transcripts
from palinurus.services.inbox import Sink
from palinurus.services.promises import resume_accepted
from palinurus.services.wake import tell_restarted
from palinurus.store.factory import StoreOpener, open_fleet_store, open_store
from palinurus.store.port import InboxRow
from palinurus.store.records import Records
from palinurus.tasks import TaskSet
from palinurus.tools.changes import FOLDER as CHANGES
from palinurus.tools.changes import was_cut_off
from palinurus.tools.watches import ASIDE, get_persona_watches

if TYPE_CHECKING:  # loaded in a fleet (`late`)
    from palinurus.inbox.relay import RunRelay
    from palinurus.store.fleet import FleetPort

log = logging.getLogger(__name__)

TAKING_UP = "taking up"  # granted to the node that takes up what a crash left
UPKEEP_FIRST = 60.0  # seconds after the start
UPKEEP = 86_400.0
KEEP = 30 * 86_400_000  # ms: finished messages and their keys; callers repeat one for 7 days at least
PRUNE_PAUSE = 0.05  # seconds between two pieces


class App(AppParts):
    """A running Palinurus without faces. `gateway` and `cli` put faces on it; tests use it as it is.

    `open` puts it together, `start` lets it run. What `open` makes is there from then on.
    """

    open_store: StoreOpener = staticmethod(open_store)  # who brings a store of their own sets theirs

    fleet: FleetPort | None = None  # the nodes that share the state

    leave: Callable[[], None] = staticmethod(lambda: None)  # the fleet asks this node to finish and to go

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        clock: Clock,
        *,
        model: Model | None = None,
        channels: Mapping[str, Channel] | None = None,
        raw: dict[str, Any] | None = None,
        given: PluginContributions | None = None,
    ) -> None:
        super().__init__(settings, environ, clock, model, channels=channels, raw=raw)
        self._own = given  # tools and hooks of the program we are embedded in
        self._upkeep: asyncio.Task[None] | None = None
        self._looks = TaskSet("learning from a session")
        self._failing: list[str] = ["starting"]
        self.probes = True  # may it look for models on this machine?

    async def open(self) -> None:
        """Lock and open the store, load plugins, look for models, put everything together, read what is on disk.

        Nothing runs after it: no message is received, sent or taken up again, no job starts, no server is connected.
        Raises StateError kinds, ConfigError.
        """
        self.store = await self.open_store(self.settings.home, self.clock)
        self.closers += (self.store.close, self._release_files)
        self.fleet = getattr(self.store, "fleet", None)
        if self.fleet is not None:
            self.settings = await late.load_part("fleet-serves")(self.store, self.fleet, self.settings)
        await adopt_transcripts(self.settings.home, self.store)
        for agent in self.settings.agents.values():
            os.makedirs(agent.workspace, mode=0o700, exist_ok=True)
        self._load_plugins()
        if self.probes and any(self.catalog.wants_probe(agent) for agent in self.settings.agents.values()):
            self.catalog.ollama = await probe_ollama()
            self.catalog.windows = await probe_windows(self.catalog.ollama)
        self.wire()
        await self.voices.load()
        await self.nodes.load()
        self.store.watch(self.news.hear)
        if self.fleet is not None:
            self._keep_fleet(self.fleet)
        if self.store.node:
            await self._join_fleet()
        if (bus := await self.store.open_bus()) is not None:
            relay: RunRelay = late.load_part("relay")(bus, self.dispatcher.feeds, self.clock)
            self.dispatcher.peers.relay = relay
            relay.start()
            self.closers.append(relay.close)
        await self.subagents.load()
        await self.scheduler.load()
        await self.tapes.load()

    def _keep_fleet(self, fleet: FleetPort) -> None:
        """What a node of several does besides."""
        made = late.load_part("fleet-keeper")
        keeper = made(fleet, self.store, self.clock, self.settings.store.lease, self.processes)
        keeper.replied, keeper.serves, keeper.leave = self.deliverer.on_queued, self.dispatcher.serves, self.leave
        self.dispatcher.feeds.follow(keeper)
        self.store.watch(keeper.hear)
        keeper.start()
        # after the jobs' clock has stopped: then another may keep it, while the runs here end
        self.closers.insert(self.closers.index(self.scheduler.close), keeper.retire)
        self.closers.append(keeper.close)

    async def start(self) -> None:
        """`open`, then take up what a crash left, deliver, receive, keep time. Raises StateError kinds, ConfigError."""
        await self.open()
        # What is there belongs to dead processes, not to other nodes; in a fleet what is in our home is always ours.
        first = await self.store.grant(TAKING_UP, alone=True)
        if self.store.node:  # whoever outlives us hears that it is free
            await self.store.grant(f"{LIFE}{self.store.node}")
        local = first or bool(self.settings.store.find_url(self._environ))
        if local and self.settings.mcp.servers:
            await asyncio.to_thread(late.load_part("strays"), self.settings)
        if local:
            get_persona_watches().recover(os.path.join(self.settings.home, ASIDE))
            await self._recover_changes()
        await self.pipeline.load(self.approvals, take_up=first)
        self.deliverer.start()
        if first:
            await tell_restarted(self.store, self.post.say, self.channels)
            await resume_accepted(self.store, self.scheduler, self.clock.now())
        await self.dispatcher.resume()
        self.subagents.resume(alone=first)
        if local:
            await self.processes.recover()
        await self.receivers.open()
        self._upkeep = asyncio.ensure_future(self._maintain())
        self.scheduler.start()
        if self.settings.mcp.servers:
            self.mcp.start()
        if self.settings.session.learning.at_end:
            self.hooks.on("session_end", self._hear_end, owner="session.learning")
            self.closers.append(self._looks.close)
        self._failing.clear()
        self.hooks.observe("gateway_start", {"port": self.settings.gateway.port})

    async def _join_fleet(self) -> None:
        """What all nodes have in common besides their state."""
        commons = FleetCommons(self.store, self.clock, self.settings.home, self.catalog.vault)
        self.closers.append(commons.close)
        await commons.start(self._models.keys if self._models is not None else None, self.news.rereads)

    async def _recover_changes(self) -> None:
        """Before anybody changes files again."""
        home = self.settings.home
        if was_cut_off(home):
            await asyncio.to_thread(late.load_part("change-recovery"), home, self.settings.tools.changes)

    async def _release_files(self) -> None:
        """No command runs any more: the agent's own files are the owner's to change."""
        get_persona_watches().release(os.path.join(self.settings.home, ASIDE))

    def _load_plugins(self) -> None:
        """Before anything looks at what they bring."""
        self.plugins = plugins.load_plugins(self.settings, self.hooks, self._own)
        brought = self.plugins.brought
        self.catalog.vendors = brought.vendors
        self.hooks.find_policy = self._find_policy
        skills = msgspec.structs.replace(self.settings.skills, extra=(*self.settings.skills.extra, *brought.skills))
        self.settings = msgspec.structs.replace(self.settings, skills=skills)

    def _find_policy(self, provider: str, model: str) -> ThinkingRow:
        """For plugins: the thinking levels of a model as this program knows it."""
        agent = self.settings.agents[self.settings.default_agent]
        return resolve_thinking_policy(
            provider, model, lambda name: self.catalog.find(name, agent), self.catalog.vendor(provider)
        )

    async def _maintain(self) -> None:
        """Once a day and soon after the start."""
        wait = UPKEEP_FIRST
        while True:
            await self.clock.sleep(wait)
            wait = UPKEEP
            try:
                if await self.store.grant(TAKING_UP):
                    await self._clean_up()
            except Exception:  # task boundary: tomorrow again
                log.exception("sessions could not be cleaned up")

    async def _clean_up(self) -> None:
        """Old sessions, archives and messages go, by a time that more than one reading of the clock stands for."""
        times = Records(self.store, "clock", BelievedTime)
        now, before = self.clock.now(), await times.get("believed") or BelievedTime()
        believed = believe_time(before, now)
        if believed != before:
            await times.put("believed", believed)
        home, rules = self.settings.home, self.settings.session.upkeep
        upkeep = late.load_part("upkeep")
        await upkeep(home, self.store, rules, now, busy=lambda: self.dispatcher.busy, believed=believed.at)
        while await self.store.prune(believed.at - KEEP):
            await self.clock.sleep(PRUNE_PAUSE)
        if os.path.isdir(os.path.join(home, CHANGES)):
            await late.load_part("change-keeper").ChangeKeeper(self.settings, self.store).prune(believed.at)
        if self.settings.session.learning.nightly:
            await late.load_part("command-learn").open_learning(self.program).look_at_all()
        await self.canvas.sweep()
        old = believed.at / 1000 - self.settings.audio.keep * 86_400
        await asyncio.to_thread(sweep_media_files, home, old)
        await asyncio.to_thread(self.tapes.thin, (believed.at - KEEP) / 1000)

    def _hear_end(self, told: dict[str, Any]) -> None:
        self._looks.start(self._learn(told))  # a model takes longer than a hook may

    async def _learn(self, told: dict[str, Any]) -> None:
        """A session is over: the agent may propose what to remember of it. Killed here, nothing is proposed."""
        key = parse_session_key(str(told["sessionKey"]))
        if key is not None and key.kind in ("main", "direct"):
            file = f"agents/{key.agent}/sessions/{told['sessionId']}.jsonl"
            await late.load_part("command-learn").open_learning(self.program).look(str(key), file)

    async def hook(self, channel: str, account: str, request: ChannelHttpRequest) -> ChannelHttpResponse | None:
        """A chat platform's request, to the account it names; None if there is none. Raises what `submit` raises."""
        found = find_account(self.channels, self.settings, channel, account)
        return await found.hook(request, self.admission.take) if found is not None else None

    def watch(self, item: str, sink: Sink) -> Callable[[], None]:
        """See a message's run events from now on. Returns the function that ends it."""
        return self.dispatcher.feeds.watch(item, sink)

    def follow(self, follower: RunFollower, everywhere: Callable[[], bool] | None = None) -> Callable[[], None]:
        """See every message of every session from now on (`everywhere`: `RunFeeds.follow`). Returns the function that
        ends it."""
        return self.dispatcher.feeds.follow(follower, everywhere)

    async def wait(self, item: str) -> InboxRow:
        """The message once its outcome is on disk. Raises NotFound."""
        return await self.dispatcher.wait(item)

    async def abort(self, session: str, reason: str) -> bool:
        """Stop the running turn of a session, and its sub-agents. On disk when it returns. False if none runs."""
        return (await self.dispatcher.stop(session, reason)).ran

    def ready(self) -> tuple[bool, list[str]]:
        """Whether messages are taken, and if not why."""
        failing = self._failing or (["draining"] if self.dispatcher.draining else [])
        return not failing, list(failing)

    async def stop(self, reason: str = "stop", drain: float = 0.0) -> None:
        """Take nothing new, give running turns `drain` seconds, hand the rest back, close everything.

        May be cancelled and called again: it goes on where it was.
        """
        self.drain_seconds = drain
        if self._upkeep:
            self._upkeep.cancel()
        while self.closers:
            close = self.closers[-1]
            if close == self.hooks.drain and not self._failing:
                self.hooks.observe("gateway_stop", {"reason": reason})
            await close()
            self.closers.pop()


def build_app(
    loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock, lost: Callable[[str], None] | None = None
) -> App:
    """The App for a loaded configuration; nothing is opened before `start`. `lost` ends a process without which its
    fleet goes on; it is told why."""
    app = App(loaded.settings, environ, clock, raw=loaded.raw)
    store = loaded.settings.store
    if url := store.find_url(environ):
        node = store.name_node(loaded.settings.home)
        facts = late.load_part("fleet-facts")(loaded.raw)
        app.open_store = open_fleet_store(url, node, store.lease, lost, facts=facts)
    return app
