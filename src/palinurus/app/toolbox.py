"""The tools: those that need nothing, and those that see a part of the program. Loaded with the first run."""

from __future__ import annotations

from palinurus.app.media import VoiceNoteMaker
from palinurus.app.parts import ToolboxViews
from palinurus.config.settings import Settings
from palinurus.core.structured import LLM_TASK
from palinurus.core.types.model import Model
from palinurus.core.types.tool import Tool
from palinurus.plugins.checkout import CHECKOUT, find_update_source
from palinurus.providers.catalog import Catalog
from palinurus.providers.task import TaskModel
from palinurus.providers.vision import VisionModel
from palinurus.services.sessions import SessionDirectory
from palinurus.services.speech import AgentVoices
from palinurus.services.status import SessionStatusReader
from palinurus.tools.collect import make_all_tools
from palinurus.tools.media.speech import make_speech_tool
from palinurus.tools.program import gateway, message
from palinurus.tools.program.task import make_task_tool
from palinurus.tools.web.shrink import shrink_image
from palinurus.tools.web.toolset import WebToolset


def make_web_tools(settings: Settings, catalog: Catalog, web: WebToolset, model: Model) -> dict[str, Tool]:
    """The tools that look outside; the one for images only if a model sees."""
    eyes = VisionModel(settings, catalog, model)
    return web.tools(eyes if eyes.available() else None, shrink_image)


def make_voice_tool(settings: Settings, voices: AgentVoices) -> dict[str, Tool]:
    """The tool that speaks, by its name; empty where nobody can."""
    speaks = any(voices.has_voice(agent) for agent in settings.agents)
    return make_speech_tool(VoiceNoteMaker(voices) if speaks else None)


def make_toolbox(views: ToolboxViews) -> dict[str, Tool]:
    """Every tool there is, by name; who is offered which is the policy's business."""
    status = SessionStatusReader(
        views.settings, views.store, views.catalog, views.clock, environ=views.environ, running=views.inbox.running
    )
    others = SessionDirectory(views.settings, views.store, views.transcripts, views.clock, inbox=views.inbox)
    made = make_all_tools(
        views.memory,
        status,
        others,
        views.subagents,
        processes=views.processes,
        web={
            **make_web_tools(views.settings, views.catalog, views.web, views.model),
            **views.canvas.browser.tools(),
            **views.canvas.tools(),
            **views.nodes.make_tools(),
        },
        schedules=views.schedules,
    )
    rules = (views.settings.messaging, views.settings.session.send_policy)
    wrote = message.make_message_tool(views.post, *rules) if views.post is not None else {}
    tasks = TaskModel(views.settings, views.catalog, views.model)
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
