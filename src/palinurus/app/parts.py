"""Larger parts of the program, each put together of smaller ones: the model port as a run sees it (providers,
cassette, budgets, the watch over the prompt cache, one around the other), who makes room in long conversations, and the
tools, those that need nothing and those that see a part of the program through a port.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from palinurus.agent.compaction.compactor import CompactionCoordinator
from palinurus.agent.compaction.shorten import CompactionServices, Mark, Standing
from palinurus.agent.promptcache import CacheWatch, WatchedModel
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.model import Model
from palinurus.core.types.tool import Tool
from palinurus.plugins.hooks import Hooks
from palinurus.providers.budget import Budgets
from palinurus.providers.cassette import wrap_model
from palinurus.providers.catalog import Catalog
from palinurus.providers.meter import MeteredModel
from palinurus.providers.rotation import KeyRotation
from palinurus.providers.stream import ProviderModels
from palinurus.providers.vision import VisionModel
from palinurus.services.inbox import InboxPort
from palinurus.services.status import SessionStatusReader
from palinurus.services.subagents.control import SubagentControl
from palinurus.store.port import Store
from palinurus.tools.collect import SessionsAndAgents, make_all_tools
from palinurus.tools.commands.table import CommandTable
from palinurus.tools.program import gateway, message
from palinurus.tools.program.cron import SchedulerPort
from palinurus.tools.program.recipient import MessagePort
from palinurus.tools.web.toolset import WebToolset
from palinurus.workspace.memory.memories import Memories
from palinurus.workspace.shrink import shrink_image


class CompactionCallbacks(NamedTuple):
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


def add_budgets_and_watch(
    model: Model, settings: Settings, store: Store, clock: Clock, defer: Defer
) -> tuple[Model, CacheWatch]:
    """Within budgets, and with each request's prefix remembered; the watch is to be flushed at the end."""
    zone = settings.agents[settings.default_agent].user_timezone
    metered = MeteredModel(model, Budgets(settings.budgets, store, clock, zone))
    watch = CacheWatch(settings.home, defer=defer)
    return WatchedModel(metered, watch, clock), watch


class ToolboxViews(NamedTuple):
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
    model: Model  # for the image tool
    others: SessionsAndAgents  # the sessions and agents besides the one that asks
    subagents: SubagentControl  # who keeps sub-agents
    schedules: SchedulerPort  # who keeps jobs
    post: MessagePort | None = None  # who writes to chats
    restart: Callable[[float], None] | None = None  # begin again in so many seconds, where there is a gateway


def make_web_tools(settings: Settings, catalog: Catalog, web: WebToolset, model: Model) -> dict[str, Tool]:
    """The tools that look outside; the one for images only if a model sees."""
    eyes = VisionModel(settings, catalog, model)
    return web.tools(eyes if eyes.available() else None, shrink_image)


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
        web=make_web_tools(views.settings, views.catalog, views.web, views.model),
        schedules=views.schedules,
    )
    wrote = message.make_message_tool(views.post, views.settings.messaging) if views.post is not None else {}
    return {
        **made,
        **wrote,
        **gateway.make_gateway_tool(gateway.GatewayControl(views.settings.home, views.environ, views.restart)),
    }
