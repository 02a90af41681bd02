"""The tools of this program: those that need nothing, and those that see a part of it through a port."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.model import Model
from palinurus.core.types.tool import Tool
from palinurus.providers.catalog import Catalog
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
