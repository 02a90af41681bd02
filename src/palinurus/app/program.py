"""The App. Start order is the list in `App.start`, stopping goes through it backwards; `_wire` says who plugs into
whom."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from palinurus.agent.invoke import DirectToolCaller
from palinurus.agent.plan.offer import ToolOffers
from palinurus.agent.plan.prepare import PreparerParts, RunPreparer
from palinurus.agent.plan.prompt import PromptBuilder, PromptSupply
from palinurus.agent.plan.window import TokenCalibration
from palinurus.agent.runtimes.choose import Runtimes
from palinurus.agent.turn import TurnRunner, TurnServices
from palinurus.app import mcp, models, plugins
from palinurus.app.admission import AdmissionPorts, ChannelAdmission
from palinurus.app.background import make_promises, make_scheduler, make_subagents, make_webhooks
from palinurus.app.channels import find_account as account_of
from palinurus.app.channels import make_signin_kit, open_channels
from palinurus.app.media import make_upload_saver
from palinurus.app.models import CompactionCallbacks, make_compactions
from palinurus.app.pipeline import ReplyPipeline
from palinurus.app.receivers import ChannelReceivers
from palinurus.app.signin import SignInRunner
from palinurus.app.tools import ToolboxViews, make_approval_board, make_processes, make_toolbox
from palinurus.clock import Clock
from palinurus.config.load import LoadedConfig
from palinurus.config.settings import Settings
from palinurus.core.types.channel import Channel, ChannelHttpRequest, ChannelHttpResponse
from palinurus.core.types.events import RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.model import Model
from palinurus.core.types.outbound import Reply
from palinurus.core.types.tool import Tool
from palinurus.errors import NotFound
from palinurus.inbox.attachments import FileAttacher, sweep_inbound_files
from palinurus.inbox.commands.command import CommandContext
from palinurus.inbox.control import CommandController
from palinurus.inbox.dispatch import Dispatcher
from palinurus.inbox.feed import RunFollower
from palinurus.inbox.receivers import ChatChannels
from palinurus.outbox.deliver import Deliverer
from palinurus.outbox.post import OutboxPost
from palinurus.plugins.api import PluginContributions
from palinurus.plugins.hooks import Hooks
from palinurus.plugins.load import PluginSet
from palinurus.providers.catalog import Catalog
from palinurus.providers.probe import probe_ollama
from palinurus.providers.stream import ProviderModels
from palinurus.providers.transcribe import SpeechTranscriber
from palinurus.services.promises import resume_accepted
from palinurus.services.sessions import SessionDirectory, SessionInboxPort
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcripts
from palinurus.sessions.upkeep import run_upkeep
from palinurus.store.port import Acceptance, InboxRow, Store
from palinurus.store.sqlite import open_store
from palinurus.tools.commands.environ import build_child_env, build_search_path
from palinurus.tools.commands.table import CommandTable
from palinurus.tools.web.toolset import WebToolset
from palinurus.workspace.memory.memories import Memories
from palinurus.workspace.sources import PromptSources

log = logging.getLogger(__name__)

UPKEEP_FIRST = 60.0  # seconds after the start
UPKEEP = 86_400.0
LATER = 1.0

Sink = Callable[[RunEvent], None]


class App:
    """A running Palinurus without faces. `gateway` and `cli` put faces on it; tests use it as it is."""

    store: Store
    dispatcher: Dispatcher
    desk: CommandContext  # what commands, and faces that do the same, may use
    offers: ToolOffers
    processes: CommandTable
    invoke: DirectToolCaller  # one tool, outside any run

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
        self.settings = settings
        self.clock = clock
        self.hooks = Hooks()
        # Variables from the config stand in for those the environment does not have.
        environ = {**{name: value.reveal() for name, value in settings.env.items()}, **environ}
        self.catalog = Catalog(settings, environ)
        self.channels: dict[str, Channel] = dict(channels or {})
        self._environ = environ
        self._given = model
        self._raw = raw
        self._own = given  # tools and hooks of the program we are embedded in
        self.plugins = PluginSet()
        self._models: ProviderModels | None = None
        self._upkeep: asyncio.Task[None] | None = None
        self._failing: list[str] = ["starting"]
        self.restart: Callable[[float], None] | None = (
            None  # how a gateway around this begins again; set before `start`
        )

    async def start(self) -> None:
        """Lock and open the store, look for models, wire the run, take up what a crash left, open the channels.

        Raises StateError kinds, ConfigError.
        """
        self.store = await open_store(self.settings.home, self.clock)
        for agent in self.settings.agents.values():
            os.makedirs(agent.workspace, mode=0o700, exist_ok=True)
        self._plug()
        await asyncio.to_thread(mcp.kill_stray_servers, self.settings)
        if any(self.catalog.wants_probe(agent) for agent in self.settings.agents.values()):
            self.catalog.ollama = await probe_ollama()
        self._channels()
        self.speech = ReplyPipeline(self.settings, self.hooks, self.store, self.channels, self.clock)
        self.deliverer = Deliverer(self.store, self.channels, self.hooks, self.clock, self.speech.aids)
        self._wire()
        await self.speech.load(self.board)
        self.deliverer.start()
        self.dispatcher.feeds.follow(self.nest.watch)
        self.promises = make_promises(self)
        self.dispatcher.feeds.follow(self.promises)
        self.dispatcher.feeds.follow(self.gate.guests)
        await self.nest.load()
        await self.clockwork.load()
        await resume_accepted(self.store, self.clockwork, self.clock.now())
        await self.dispatcher.resume()
        self.nest.resume()
        await self.processes.recover()
        self.lines.open()
        self._upkeep = asyncio.ensure_future(self._maintain())
        self.clockwork.start()
        self.mcp.start()
        self._failing.clear()
        self.hooks.observe("gateway_start", {"port": self.settings.gateway.port})

    def _plug(self) -> None:
        """Load the plugins, before anything looks at what they bring."""
        self.plugins = plugins.load_plugins(self.settings, self.hooks, self._own)
        brought = self.plugins.brought
        self.catalog.vendors = brought.vendors
        skills = msgspec.structs.replace(self.settings.skills, extra=(*self.settings.skills.extra, *brought.skills))
        self.settings = msgspec.structs.replace(self.settings, skills=skills)

    def _channels(self) -> None:
        self.web = WebToolset(self.settings.web, self.clock)
        self.mcp = mcp.make_mcp_servers(self.settings, self._environ, self.clock, self.web.egress)
        self.ears = SpeechTranscriber(self.settings.audio, self.catalog, build_child_env(self._environ, {}))
        brought = self.plugins.brought
        made = open_channels(
            self.settings, self.store, self.clock, self.web.egress, brought, lambda one: self.gate.expects(one)
        )
        self.channels = {**made, **self.channels}
        self.post = OutboxPost(self.settings, self.store, self.channels, self.clock, self._replied)
        ports = AdmissionPorts(self.submit, lambda item: self.dispatcher.abort_item(item), self.post)
        self.gate = ChannelAdmission(self.settings, self.store, self.clock, ports)
        kit = partial(make_signin_kit, self.settings, clock=self.clock, door=self.web.egress)
        self.lines = ChannelReceivers(self.settings, self.clock, self.channels, self._submitted, self.post, kit)
        self.signins = SignInRunner(self.lines, kit)

    def _tools(self, model: Model, transcripts: Transcripts) -> dict[str, Tool]:
        doors = SessionInboxPort(lambda letter: self.dispatcher.submit(letter), self.wait)
        self._memory = Memories(self.settings.home, self.settings.agents, self.clock)
        self._memory.attach(self.hooks)
        self.processes = make_processes(
            self.settings, self.store, self.clock, lambda told: self.dispatcher.submit(told)
        )
        self.nest = make_subagents(self, transcripts, build_child_env(self._environ, {}))
        self.clockwork = make_scheduler(self)
        self.webhooks = make_webhooks(self, self.clockwork.events, self.hooks)
        return make_toolbox(
            ToolboxViews(
                self.settings,
                self.store,
                self.catalog,
                self.clock,
                self._environ,
                self._memory,
                lambda key: self.dispatcher.running(key),
                self.processes,
                self.web,
                model,
                SessionDirectory(self.settings, self.store, transcripts, self.clock, doors),
                self.nest,
                self.clockwork,
                self.post,
                self.restart,
            )
        )

    def _wire(self) -> None:
        """Who plugs into whom."""
        if (model := self._given) is None:
            self._models = models.make_provider_models(self.settings, self.catalog, self.clock)
            model = models.wrap_with_cassette(self._models, self._environ)
        model, self._watch = models.add_budgets_and_watch(model, self.settings, self.store, self.clock, self._later)
        transcripts, switched = Transcripts(self.settings.home), dict[str, SessionRecord]()
        tools = {**self.plugins.brought.tools, **self._tools(model, transcripts), **self.signins.tools()}
        now, path = self.clock.monotonic, build_search_path()
        shelf = PromptSources(self.settings, self._environ, self._raw, self.hooks, path, now)
        self.gatherer = PromptBuilder(self.settings, self.catalog, lambda a, k: PromptSupply(*shelf(a, k)))
        env, gauge = build_child_env(self._environ, {}), TokenCalibration(self.store)
        parts = PreparerParts(
            self.settings, self.catalog, tools, self.store, transcripts, self.clock, env, self.hooks, self.gatherer,
            shelf, gauge, self.clockwork.events.take, self.mcp.ready if self.mcp.all else None, FileAttacher(self.ears),
        )  # fmt: skip
        self.board = make_approval_board(self.settings, self.store, self.clock, lambda: self.dispatcher.draining)
        preparer, speak = RunPreparer(parts), self.speech.speaker
        mcp.attach_mcp_tools(self.mcp, tools, preparer.offers)
        self.invoke = DirectToolCaller(preparer, self.hooks, self.clock)
        self.offers, family = preparer.offers, CompactionCallbacks(self.nest.describe_open, preparer.marks.add)
        rooms = make_compactions(self.settings, model, self._models, self.catalog, self.hooks, self.clock, family)
        services = TurnServices(
            preparer, self.store, model, self.hooks, self.clock, speak, self._replied, switched, self.board, rooms,
            Runtimes(self.settings, self._environ, self.store, lambda a, k: shelf(self.settings.agents[a], k).files),
        )  # fmt: skip

        def changed(key: str, record: SessionRecord) -> None:
            if self.dispatcher.running(key):
                switched[key] = record

        shared = (self.settings, self._environ, self.catalog, self.store, self.hooks, self.clock, transcripts)
        self.desk = CommandContext(
            *shared,
            abort=lambda key, reason: self.dispatcher.abort(key, reason),
            running=lambda key: self.dispatcher.running(key),
            submit=lambda inbound, sink=None: self.dispatcher.submit(inbound, sink),
            wait=self.wait,
            tools=tools,
            clear=lambda key: self.dispatcher.clear(key),
            prompt_report=lambda key: preparer.preview(key),
            skills=lambda key: shelf.stock(self.settings.agents[key.agent]).ready,
            files=lambda key: shelf.report(self.settings.agents[key.agent], key).files,
            board=self.board,
            changed=changed,
            fitted=self.speech.fit_replies,
            commands=plugins.make_plugin_commands(self.plugins.brought),
            compactions=rooms,
            nest=self.nest,
            stock=lambda agent: shelf.stock(self.settings.agents[agent]),
            processes=self.processes.all,
            recall=self._memory,
            embed=self._memory.embed,
            look=self._watch.last,
            schedules=self.clockwork,
            keep=make_upload_saver(self.settings, self.web.egress, self.clock),
            chats=ChatChannels(self.gate.pairing, self.gate.say, self.lines, self.signins),
        )
        turns, controller = TurnRunner(services), CommandController(self.desk, self._replied)
        self.dispatcher = Dispatcher(self.settings, self.store, turns, self.clock, controller, self._replied)

    def _later(self, write: Callable[[], None]) -> None:
        """Have files that are only for diagnosis written in a moment, off the path of messages."""
        loop = asyncio.get_running_loop()
        loop.call_later(LATER, lambda: loop.run_in_executor(None, write))

    def _replied(self, replies: tuple[Reply, ...]) -> None:
        self.speech.pace.on_queued(replies)
        for name in {reply.target.channel for reply in replies}:
            self.deliverer.wake(name)

    async def _maintain(self) -> None:
        """Old sessions and archives go, once a day and soon after the start."""
        wait = UPKEEP_FIRST
        while True:
            await self.clock.sleep(wait)
            wait = UPKEEP
            try:
                rules = self.settings.session.upkeep
                report = await run_upkeep(
                    self.settings.home, self.store, rules, self.clock.now(), lambda: self.dispatcher.busy
                )
                log.info("sessions cleaned up: %s", report)
                old = self.clock.now() / 1000 - self.settings.audio.keep * 86_400
                await asyncio.to_thread(sweep_inbound_files, self.settings.home, old)
            except Exception:  # task boundary: tomorrow again
                log.exception("sessions could not be cleaned up")

    async def _submitted(self, inbound: Inbound) -> str:
        return await self.gate.take(inbound)

    async def hook(self, channel: str, account: str, request: ChannelHttpRequest) -> ChannelHttpResponse | None:
        """A chat platform's request, to the account it names; None if there is none. Raises what `submit` raises."""
        found = account_of(self.channels, self.settings, channel, account)
        return await found.hook(request, self._submitted) if found is not None else None

    async def submit(self, inbound: Inbound, sink: Sink | None = None) -> Acceptance:
        """Put a message on disk and start or queue its turn; `sink` sees the turn's events.

        Raises Draining, QueueFull, BadRequest, DiskFull.
        """
        accepted = await self.dispatcher.submit(inbound, sink)
        if not accepted.duplicate and self.hooks.has("message_received"):
            where = {"channel": inbound.target.channel, "sessionKey": plugins.find_hook_session(inbound, self.settings)}
            told = {"from": inbound.sender.id, "content": inbound.text, "timestamp": inbound.at, **where}
            self.hooks.observe("message_received", {**told, "messageId": accepted.id})
        return accepted

    def watch(self, item: str, sink: Sink) -> Callable[[], None]:
        """See a message's run events from now on. Returns the function that ends it."""
        return self.dispatcher.feeds.watch(item, sink)

    def follow(self, follower: RunFollower) -> Callable[[], None]:
        """See every message of every session from now on. Returns the function that ends it."""
        return self.dispatcher.feeds.follow(follower)

    async def wait(self, item: str) -> InboxRow:
        """The message once its outcome is on disk. Raises NotFound."""
        row = await self.dispatcher.wait(item)
        if row is None:
            raise NotFound(f"no message {item}")
        return row

    def abort(self, session: str, reason: str) -> bool:
        """Stop the running turn of a session, and its sub-agents. False if none runs."""
        self.nest.stop_soon(session)
        return self.dispatcher.abort(session, reason)

    def ready(self) -> tuple[bool, list[str]]:
        """Whether messages are taken, and if not why."""
        draining = hasattr(self, "dispatcher") and self.dispatcher.draining
        failing = [*self._failing, *(["draining"] if draining else [])]
        return not failing, failing

    async def stop(self, reason: str = "stop", drain: float = 0.0) -> None:
        """Take nothing new, give running turns `drain` seconds, hand the rest back, close everything."""
        if self._upkeep:
            self._upkeep.cancel()
        if hasattr(self, "lines"):
            await self.signins.close()
            await self.lines.close()
        if hasattr(self, "dispatcher"):
            await self.clockwork.close()
            await self.nest.close()
            await self.dispatcher.drain(drain)
            await self.promises.close()
            await self.processes.close()
            await self.mcp.close()
            await self.board.close()
            await self.deliverer.stop()
            await self.speech.close()
            self.hooks.observe("gateway_stop", {"reason": reason})
            await self.hooks.drain()
            await self._memory.close()
            await self.ears.close()
            await self.web.close()
            self._watch.flush()
        if self._models is not None:
            await self._models.close()
        if hasattr(self, "store"):
            await self.store.close()


def build_app(loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock) -> App:
    """The App for a loaded configuration; nothing is opened before `start`."""
    return App(loaded.settings, environ, clock, raw=loaded.raw)
