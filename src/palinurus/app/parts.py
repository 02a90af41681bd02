"""Larger parts of the program, each put together of smaller ones: the model port as a run sees it (providers,
cassette, budgets, the watch over the prompt cache, one around the other), who makes room in long conversations, and the
tools, those that need nothing and those that see a part of the program through a port.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from palinurus.agent.compaction.compactor import CompactionCoordinator
from palinurus.agent.compaction.shorten import CompactionServices, Mark, Standing
from palinurus.agent.promptcache import CacheWatch, WatchedModel
from palinurus.app.media import VoiceNoteMaker
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.structured import LLM_TASK
from palinurus.core.types.channel import Channel
from palinurus.core.types.model import Model
from palinurus.core.types.tool import Tool
from palinurus.late import load_part
from palinurus.plugins.checkout import CHECKOUT, find_update_source
from palinurus.plugins.hooks import Hooks
from palinurus.providers.budget import Budgets
from palinurus.providers.cassette import wrap_model
from palinurus.providers.catalog import Catalog
from palinurus.providers.meter import MeteredModel
from palinurus.providers.rotation import KeyRotation
from palinurus.providers.speech.maker import SpeechMaker
from palinurus.providers.speech.voices import VoiceFinder
from palinurus.providers.stream import ProviderModels
from palinurus.providers.task import TaskModel
from palinurus.providers.vision import VisionModel
from palinurus.services.inbox import InboxPort
from palinurus.services.speech import AgentVoices
from palinurus.services.status import SessionStatusReader
from palinurus.services.subagents.control import SubagentControl
from palinurus.store.port import Store
from palinurus.tools.browser.offer import BrowserOffer
from palinurus.tools.collect import SessionsAndAgents, make_all_tools
from palinurus.tools.commands.table import CommandTable
from palinurus.tools.media.speech import make_speech_tool
from palinurus.tools.program import gateway, message
from palinurus.tools.program.cron import SchedulerPort
from palinurus.tools.program.recipient import MessagePort
from palinurus.tools.program.task import make_task_tool
from palinurus.tools.web.egress import EgressGuard
from palinurus.tools.web.shrink import shrink_image
from palinurus.tools.web.toolset import WebToolset
from palinurus.workspace.memory.memories import Memories


class CompactionCallbacks(msgspec.Struct, frozen=True):
    """`standing` says what a session has open besides its messages; `mark` notes what is written under taint."""

    standing: Standing = lambda session: ()
    mark: Mark | None = None


def make_compactions(
    settings: Settings,
    model: Model,
    providers: ProviderModels | None,
    catalog: Catalog,
    hooks: Hooks,
    clock: Clock,
    family: CompactionCallbacks,
) -> CompactionCoordinator:
    """Who makes room in long conversations: the summarising model, the pinned keys, what still stands."""

    def forget(session: str) -> None:
        if providers is not None:
            providers.forget(session)

    shared = (settings.compaction, settings.agents, model, catalog, hooks, clock)
    return CompactionCoordinator(CompactionServices(*shared, family.standing, forget, family.mark))


Defer = Callable[[Callable[[], None]], None]


def make_provider_models(settings: Settings, catalog: Catalog, clock: Clock) -> ProviderModels:
    """Every model there is, with the keys it takes turns with. To be closed by who made it."""
    return ProviderModels(catalog, clock, keys=KeyRotation(clock, settings.home))


def wrap_with_cassette(model: Model, environ: Mapping[str, str]) -> Model:
    """With a cassette in between, if PALINURUS_CASSETTE asks for one."""
    return wrap_model(model, environ.get("PALINURUS_CASSETTE", ""))


def make_budgets(settings: Settings, store: Store, clock: Clock) -> Budgets:
    """What may be spent, by whoever asks a model for something."""
    return Budgets(settings.budgets, store, clock, settings.agents[settings.default_agent].user_timezone)


def add_budgets_and_watch(
    model: Model, settings: Settings, budgets: Budgets, clock: Clock, defer: Defer
) -> tuple[Model, CacheWatch]:
    """Within budgets, and with each request's prefix remembered; the watch is to be flushed at the end."""
    metered = MeteredModel(model, budgets)
    watch = CacheWatch(settings.home, defer=defer)
    return WatchedModel(metered, watch, clock), watch


class PicturesPart(Protocol):
    """`app/pictures.py: PictureMaker`, which is loaded where an agent has a model that makes pictures."""

    def make_tools(self, egress: EgressGuard) -> dict[str, Tool]: ...

    async def close(self) -> None: ...


class ToolboxViews(msgspec.Struct, frozen=True):
    """What tools may see of the program."""

    settings: Settings
    store: Store
    catalog: Catalog
    clock: Clock
    environ: Mapping[str, str]
    memory: Memories
    inbox: InboxPort
    processes: CommandTable  # commands that run in the background
    web: WebToolset  # the one network door and what goes through it
    browser: BrowserOffer
    model: Model  # for the image tool
    others: SessionsAndAgents  # the sessions and agents besides the one that asks
    subagents: SubagentControl  # who keeps sub-agents
    schedules: SchedulerPort  # who keeps jobs
    voices: AgentVoices  # who speaks
    pictures: PicturesPart | None = None  # who makes pictures
    post: MessagePort | None = None  # who writes to chats
    restart: Callable[[float], None] | None = None  # begin again in so many seconds, where there is a gateway


def make_web_tools(settings: Settings, catalog: Catalog, web: WebToolset, model: Model) -> dict[str, Tool]:
    """The tools that look outside; the one for images only if a model sees."""
    eyes = VisionModel(settings, catalog, model)
    return web.tools(eyes if eyes.available() else None, shrink_image, settings.pdf, eyes)


def make_voices(
    settings: Settings, catalog: Catalog, store: Store, env: Mapping[str, str], channels: Mapping[str, Channel]
) -> AgentVoices:
    """Who speaks for the agents. `env` is the environment of commands."""
    finder = VoiceFinder(catalog, env)
    maker = SpeechMaker(finder, env, settings.home)
    return AgentVoices(settings, catalog, store, maker, finder=finder, channels=channels)


def make_voice_tool(settings: Settings, voices: AgentVoices) -> dict[str, Tool]:
    """The tool that speaks, by its name; empty where nobody can."""
    speaks = any(voices.has_voice(agent) for agent in settings.agents)
    return make_speech_tool(VoiceNoteMaker(voices) if speaks else None)


def make_pictures(settings: Settings, catalog: Catalog, budgets: Budgets) -> PicturesPart | None:
    """Who makes pictures; None where no agent has a model for that. To be closed by who asked."""
    if not any(agent.pictures.models for agent in settings.agents.values()):
        return None
    made: PicturesPart = load_part("pictures")(settings, catalog, budgets)
    return made


def make_toolbox(views: ToolboxViews) -> dict[str, Tool]:
    """Every tool there is, by name; who is offered which is the policy's business."""
    status = SessionStatusReader(
        views.settings, views.store, views.catalog, views.clock, environ=views.environ, running=views.inbox.running
    )
    made = make_all_tools(
        views.memory,
        status,
        views.others,
        views.subagents,
        processes=views.processes,
        web={**make_web_tools(views.settings, views.catalog, views.web, views.model), **views.browser.tools()},
        schedules=views.schedules,
    )
    rules = (views.settings.messaging, views.settings.session.send_policy)
    wrote = message.make_message_tool(views.post, *rules) if views.post is not None else {}
    tasks = TaskModel(views.settings, views.catalog, views.model)
    if not views.settings.tools.plan:
        del made["update_plan"]
    wanted = LLM_TASK in views.settings.plugins.enabled_ids
    return {
        **made,
        **make_voice_tool(views.settings, views.voices),
        **(views.pictures.make_tools(views.web.egress) if views.pictures is not None else {}),
        **wrote,
        **(make_task_tool(tasks) if wanted else {}),
        **gateway.make_gateway_tool(
            gateway.GatewayControl(
                views.settings.home,
                views.environ,
                views.restart,
                find_update_source(CHECKOUT),
                allowed=views.settings.commands.restart,
            )
        ),
    }
