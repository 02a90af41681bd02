"""The parts of the program, each made once and handed to those who need it, in the order in which they need each
other. The only file that knows who plugs into whom; nothing in it starts, sends or receives.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from palinurus import late
from palinurus.agent.compaction.coordinator import CompactionCoordinator
from palinurus.agent.invoke import DirectToolCaller
from palinurus.agent.marks import KIND as TAINT
from palinurus.agent.plan.prepare import PreparerParts, RunPreparer
from palinurus.agent.plan.window import TokenCalibration
from palinurus.agent.runtimes.choose import Runtimes
from palinurus.agent.turn import TurnRunner, TurnServices
from palinurus.app import parts, plugins
from palinurus.app.admission import ChannelAdmission
from palinurus.app.background import (
    NewsHearer,
    make_command_table,
    make_job_observer,
    make_offered,
    make_promise_check,
    make_watch_command,
    make_webhook_poster,
    stop_session_processes,
    write_later,
)
from palinurus.app.channels import make_signin_kit, open_channels
from palinurus.app.commons import make_heir
from palinurus.app.media import make_file_attacher, make_image_fetcher, make_upload_saver
from palinurus.app.parts import CompactionCallbacks, ToolboxViews, ToolTable, make_compactions
from palinurus.app.receivers import ChannelReceivers
from palinurus.app.signin import SignInRunner
from palinurus.clock import Clock
from palinurus.config.sections.approvals import APPROVALS_FILE
from palinurus.config.settings import Settings
from palinurus.config.zones import detect_timezone
from palinurus.core.types.channel import Channel
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.model import Model
from palinurus.core.types.tool import Tool
from palinurus.inbox.commands.command import CommandContext
from palinurus.inbox.control import CommandController
from palinurus.inbox.dispatch import Dispatcher
from palinurus.inbox.message import InboxMessage, MessageReader
from palinurus.inbox.receivers import ChatChannels
from palinurus.outbox.deliver import Deliverer
from palinurus.outbox.pipeline import ReplyPipeline
from palinurus.outbox.post import OutboxPost
from palinurus.plugins.hooks import Hooks
from palinurus.plugins.load import PluginSet
from palinurus.providers.catalog import Catalog
from palinurus.providers.stream import ProviderModels
from palinurus.providers.transcribe import SpeechTranscriber
from palinurus.services.approvals import KIND as APPROVAL
from palinurus.services.approvals import ApprovalBoard
from palinurus.services.inbox import Sink
from palinurus.services.nodes import part as nodes
from palinurus.services.promises import PromiseFollower
from palinurus.services.subagents.control import SubagentControl
from palinurus.services.subagents.registry import KIND as SUBAGENT
from palinurus.services.subagents.spawn import SubagentParts
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcripts
from palinurus.store.port import Acceptance, Store
from palinurus.taping import TapedClock
from palinurus.tools.canvas.offer import CanvasOffer
from palinurus.tools.commands.environ import build_child_env, build_search_path
from palinurus.tools.watches import get_persona_watches
from palinurus.tools.web.toolset import WebToolset
from palinurus.triggers.events import SystemEvents
from palinurus.triggers.ports import TriggerPort
from palinurus.triggers.scheduler import Scheduler
from palinurus.triggers.webhooks import Webhooks
from palinurus.workspace.memory.memories import Memories
from palinurus.workspace.sources import PromptSources

if TYPE_CHECKING:
    from palinurus.tools.mcp.servers import McpServers


class AppParts:
    """What the program consists of. All of it is there after `wire`, which needs the store and the plugins."""

    store: Store
    mcp: McpServers  # where some are configured

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        clock: Clock,
        model: Model | None = None,
        *,
        channels: Mapping[str, Channel] | None = None,
        raw: dict[str, Any] | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._clock = TapedClock(clock)
        self.hooks = Hooks()
        # Variables from the config stand in for those the environment does not have.
        self._environ = {**{name: value.reveal() for name, value in settings.env.items()}, **environ}
        self.catalog = Catalog(settings, self._environ)
        self.channels: dict[str, Channel] = dict(channels or {})
        self._given = model
        self._raw = raw
        self.plugins = PluginSet()
        self._models: ProviderModels | None = None
        self.drain_seconds = 0.0  # what running turns get to end by themselves
        self.closers: list[Callable[[], Awaitable[None]]] = []  # called from the last to the first
        self.wrap_model: Callable[[Model], Model] = lambda model: model  # tests put something around it
        self._switched: dict[str, SessionRecord] = {}
        self.restart: Callable[[float], None] | None = None  # how a gateway around this begins again

    def wire(self) -> None:
        """Who plugs into whom, in the order in which they need each other."""
        self.web = WebToolset(self.settings.web, self.clock)
        settings, clock = self.settings, self.clock
        browser = partial(late.load_part, "browser-offer")
        known = (settings.browser, settings.home, self._environ, self.web.egress)
        self.canvas = CanvasOffer(settings, self.store, clock, lambda: browser()(*known, clock=clock))
        self.nodes = nodes.NodesPart(settings.gateway.nodes, self.store, clock)
        if settings.mcp.servers:
            self.mcp = late.load_part("servers")(self.settings, self._environ, self.clock, self.web.egress)
        self.logins = parts.LateSignIns(self.catalog, self.web.egress, clock, getattr(self, "mcp", None))
        self._transcripts = Transcripts(self.settings.home, tail=self.store.read_tail)
        self._memory = Memories(self.settings.home, self.settings.agents, self.clock)
        self._memory.attach(self.hooks)
        self._wire_chats()
        model = self._wire_model()
        self.voices.attach(model)
        self._wire_runs(model)
        self.closers += [self.pictures.close] if self.pictures is not None else []
        read = {APPROVAL: self.approvals.reread, SUBAGENT: self.subagents.registry.reread, TAINT: self._marks.reread}
        ears, heirs = (self.dispatcher, self.deliverer, self.scheduler), make_heir(self.store, self.subagents)
        self.news = NewsHearer(*ears, self.receivers, heirs=heirs, rereads={**read, nodes.KIND: self.nodes.reread})
        self.closers += [
            self._close_models,
            self.web.close,
            self.ears.close,
            self.voices.close,
            self._memory.close,
            self.hooks.drain,
            self.tapes.close,
            self.pipeline.close,
            self.deliverer.stop,
            self.approvals.close,
            *([self.mcp.close] if self.settings.mcp.servers else []),
            self.canvas.close_browser,
            self.processes.close,
            self.promises.close,
            lambda: self.dispatcher.drain(self.drain_seconds),
            self.subagents.close,
            self.scheduler.close,
            self.receivers.close,
            self.signins.close,
            self.logins.close,
            self.news.close,
        ]

    def _wire_chats(self) -> None:
        """Messages in and replies out: channels, their admission, the outbox, the inbox."""
        settings, clock = self.settings, self.clock
        env = build_child_env(self._environ, {})
        self.voices = parts.make_voices(settings, self.catalog, self.store, env, channels=self.channels)
        self.pipeline = ReplyPipeline(settings, self.hooks, self.store, self.channels, clock=clock, voices=self.voices)
        self.deliverer = Deliverer(self.store, self.channels, self.hooks, clock, aids=self.pipeline.aids)
        self.pipeline.speaks_for = self.deliverer.speaks_for
        self.post = OutboxPost(settings, self.store, self.channels, clock, wake=self.deliverer.on_queued)
        self.commands = plugins.make_plugin_commands(self.plugins.brought)
        self.reader = MessageReader(settings, self.commands)
        self.dispatcher = Dispatcher(settings, self.store, clock, self.reader, replied=self.deliverer.on_queued)
        self.admission = ChannelAdmission(
            settings, self.store, clock, inbox=self.dispatcher, reader=self.reader, submit=self.submit, post=self.post
        )
        made = open_channels(
            settings, self.store, clock, self.web.egress, given=self.plugins.brought, wanted=self.admission.expects
        )
        self.channels.update({**made, **self.channels})  # one that was handed in goes before
        kit = partial(make_signin_kit, settings, clock=clock, door=self.web.egress)
        self.receivers = ChannelReceivers(
            settings, clock, self.channels, self.admission.take, post=self.post, kit=kit, grant=self.store.grant
        )
        self.receivers.failed, self.signins = made.failed, SignInRunner(self.receivers, kit)
        self.ears = SpeechTranscriber(settings.audio, self.catalog, env)

    def _wire_model(self) -> Model:
        """The model of all runs: what was handed in, or every provider there is; within budgets, and watched."""
        if (model := self._given) is None:
            self._models = parts.make_provider_models(self.catalog, self.clock, lambda: self.web.egress)
            model = parts.wrap_with_cassette(self._models, self._environ)
        budgets = parts.make_budgets(self.settings, self.store, self.clock)
        self.pictures = parts.make_pictures(self.settings, self.catalog, budgets)
        told = (self.wrap_model(model), self.settings, budgets, self.store)
        self._model, self._watch = parts.add_budgets_and_watch(*told, clock=self._clock, defer=write_later)
        return self._model

    def _wire_runs(self, model: Model) -> None:
        """From a claimed message to its settlement: plans, tools, turns, commands."""
        settings, store, clock = self.settings, self.store, self._clock
        self.tools = tools = ToolTable(lambda: self._make_tools(model))  # with the first run
        events = SystemEvents(store)
        kit = partial(PromptSources, path=build_search_path(), files=get_persona_watches())
        sources = kit(settings, self._environ, self._raw, self.hooks, seconds=self.clock.monotonic)
        preparer = RunPreparer(
            PreparerParts(
                settings=settings,
                catalog=self.catalog,
                tools=tools,
                store=store,
                transcripts=self._transcripts,
                clock=clock,
                env=build_child_env(self._environ, {}),
                hooks=self.hooks,
                prompts=parts.make_prompts(settings, self.catalog, sources, self.voices),
                sources=sources,
                calibration=TokenCalibration(store),
                tell=events.take,
                ready=self.mcp.ready if settings.mcp.servers else None,
                attach=make_file_attacher(settings, self.ears, store),
                fetch=make_image_fetcher(self.web.egress) if settings.web.fetch.enabled else None,
            )
        )
        self.offers, self._marks = preparer.offers, preparer.marks
        self.invoke = DirectToolCaller(preparer, self.hooks, clock, store.confirm)
        self._wire_background(events, preparer)
        self.nodes.attach(tools, self.offers.forget)
        if settings.mcp.servers:
            self.mcp.attach(tools, self.offers.forget, late.load_part("sampling")(settings, self.catalog, model))
        self._wire_turns(model, preparer, sources)

    def _make_tools(self, model: Model) -> dict[str, Tool]:
        """Plugins' tools, then ours: of what has the same name, the later."""
        views = ToolboxViews(
            settings=self.settings,
            store=self.store,
            catalog=self.catalog,
            clock=self.clock,
            environ=self._environ,
            memory=self._memory,
            inbox=self.dispatcher,
            processes=self.processes,
            web=self.web,
            canvas=self.canvas,
            nodes=self.nodes,
            model=model,
            transcripts=self._transcripts,
            subagents=self.subagents,
            schedules=self.scheduler,
            voices=self.voices,
            pictures=self.pictures,
            post=self.post,
            restart=self.restart,
        )
        return {**self.plugins.brought.tools, **late.load_part("toolbox")(views), **self.signins.tools()}

    def _wire_background(self, events: SystemEvents, preparer: RunPreparer) -> None:
        """What goes on beside messages: commands, sub-agents, jobs and heartbeats, webhooks, promises, questions."""
        settings, store, clock, inbox = self.settings, self.store, self.clock, self.dispatcher
        self.processes = make_command_table(settings, self._environ, store, clock, inbox=inbox, nodes=self.nodes.open)
        preparer.editors.hold = self.processes.hold_still
        self.subagents = SubagentControl(
            SubagentParts(
                settings=settings,
                catalog=self.catalog,
                store=store,
                transcripts=self._transcripts,
                clock=clock,
                hooks=self.hooks,
                inbox=inbox,
                offered=make_offered(settings, self.catalog, preparer.offers),
                workspace=preparer.sandboxes.locate_workspace,
                end_commands=partial(stop_session_processes, self.processes),
            )
        )
        triggers = TriggerPort(
            *(settings, store, clock, inbox),
            post=make_webhook_poster(self.web.egress),
            say=self.post.say,
            channels=self.channels,
            zone=detect_timezone(self._environ),
            run=make_watch_command(self.invoke),
        )
        self.scheduler = Scheduler(triggers, events)
        self.scheduler.follow(make_job_observer(self.hooks))
        self.webhooks = Webhooks(triggers, events, self.hooks)
        kept = make_promise_check(self.processes, self.subagents, self.scheduler)
        self.promises = PromiseFollower(store, self._transcripts, kept)
        for follower in (self.subagents.watch, self.promises, self.admission.guests, self.pipeline.drafts):
            inbox.feeds.follow(follower)
        rules = os.path.join(settings.home, APPROVALS_FILE)
        self.approvals = ApprovalBoard(store, clock, rules, lambda: inbox.draining)

    def _wire_turns(self, model: Model, preparer: RunPreparer, sources: PromptSources) -> None:
        """Who does a turn, and who does a command."""
        settings, agents, inbox = self.settings, self.settings.agents, self.dispatcher
        self.tapes = parts.make_tapes(self.catalog, self.store, self.hooks, self.channels, look=self._watch.last)
        compactions = make_compactions(
            *(settings, model, self._models, self.catalog),
            hooks=self.hooks,
            clock=self._clock,
            family=CompactionCallbacks(self.subagents.describe_open, preparer.marks.add),
        )
        self.turns = TurnRunner(
            TurnServices(
                preparer=preparer,
                store=self.store,
                model=model,
                hooks=self.hooks,
                clock=self._clock,
                speaker=self.pipeline.speaker,
                replied=self.deliverer.on_queued,
                switched=self._switched,
                approver=self.approvals,
                compactions=compactions,
                runtimes=Runtimes(settings, self._environ, self.store, lambda a, k: sources(agents[a], k).files),
                look=self._watch.last,
                tapes=self.tapes,
                carrier=late.load_part("result-files")(self.store) if self.store.node else None,
            )
        )
        self.program = self._make_context(sources, preparer, compactions)
        inbox.attach(self.turns, CommandController(self.program, self.deliverer.on_queued), self.subagents.stop)

    def _make_context(
        self, sources: PromptSources, preparer: RunPreparer, compactions: CompactionCoordinator
    ) -> CommandContext:
        settings, agents, inbox = self.settings, self.settings.agents, self.dispatcher

        def changed(key: str, record: SessionRecord) -> None:
            if inbox.running(key):
                self._switched[key] = record

        return CommandContext(
            settings=settings,
            environ=self._environ,
            catalog=self.catalog,
            store=self.store,
            hooks=self.hooks,
            clock=self.clock,
            transcripts=self._transcripts,
            inbox=inbox,
            tools=self.tools,
            prompt_report=preparer.preview,
            skills=lambda key: sources.stock(agents[key.agent]).ready,
            files=lambda key: sources.report(agents[key.agent], key).files,
            approvals=self.approvals,
            changed=changed,
            fitted=self.pipeline.fit_replies,
            commands=self.commands,
            resources=self.plugins.brought.resources,
            prompts=self.plugins.brought.prompts,
            compactions=compactions,
            subagents=self.subagents,
            stock=lambda agent: sources.stock(agents[agent]),
            processes=self.processes,
            recall=self._memory,
            embed=self._memory.embed,
            look=self._watch.last,
            learn=(self._model, preparer.marks.add),
            restart=self.restart,
            tapes=self.tapes,
            invoke=self.invoke,
            voices=self.voices,
            canvas=self.canvas,
            ears=self.ears,
            nodes=self.nodes,
            editors=preparer.editors,
            fleet=getattr(self.store, "fleet", None),
            schedules=self.scheduler,
            keep=make_upload_saver(settings, self.web.egress, self.clock, self.store),
            homes=lambda: late.load_part("homes")(settings.home, self._environ, self.clock, self.store),
            toolservers=getattr(self, "mcp", None),
            logins=self.logins,
            chats=ChatChannels(self.admission.pairing, self.admission.say, self.receivers, self.signins),
        )

    async def submit(
        self, inbound: Inbound, sink: Sink | None = None, *, message: InboxMessage | None = None
    ) -> Acceptance:
        """On disk; its turn starts or queues; `sink` sees events. Raises Draining, QueueFull, BadRequest, DiskFull."""
        message = message or self.reader.read(inbound, self.reader.route(inbound))
        accepted = await self.dispatcher.submit(inbound, sink, message)
        if not accepted.duplicate and self.hooks.has("message_received"):
            where = {"channel": inbound.target.channel, "sessionKey": str(message.route.key), "messageId": accepted.id}
            told = {"from": inbound.sender.id, "content": inbound.text, "timestamp": inbound.at, **where}
            self.hooks.observe("message_received", told)
        return accepted

    async def _close_models(self) -> None:
        self._watch.flush()
        if self._models is not None:
            await self._models.close()
