"""The tools of this program: those that need nothing, and those that see a part of it through a port."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from palinurus.clock import Clock
from palinurus.config.approvals import APPROVALS_FILE
from palinurus.config.settings import Settings
from palinurus.core.types.model import Model
from palinurus.core.types.tool import Tool
from palinurus.inbox.approvals import ApprovalBoard
from palinurus.inbox.children.nest import SubagentControl
from palinurus.inbox.standing import SessionStatusReader
from palinurus.inbox.wake import SessionWaker, Submit
from palinurus.providers.catalog import Catalog
from palinurus.providers.vision import VisionModel
from palinurus.store.port import Store
from palinurus.tools import gateway, message
from palinurus.tools.collect import Others, every
from palinurus.tools.cron import Schedules
from palinurus.tools.post import Post
from palinurus.tools.process.record import Records
from palinurus.tools.process.table import Processes
from palinurus.tools.web.family import Web
from palinurus.workspace.memory.shelf import Shelf as Memories
from palinurus.workspace.shrink import shrunk


class Views(NamedTuple):
    """What tools may see of the program."""

    settings: Settings
    store: Store
    catalog: Catalog
    clock: Clock
    environ: Mapping[str, str]
    memory: Memories
    running: Callable[[str], bool]  # does a turn of this session run now?
    processes: Processes  # commands that run in the background
    web: Web  # the one network door and what goes through it
    model: Model  # for the image tool
    others: Others  # the sessions and agents besides the one that asks
    nest: SubagentControl  # who keeps sub-agents
    schedules: Schedules  # who keeps jobs
    post: Post | None = None  # who writes to chats
    restart: Callable[[float], None] | None = None  # begin again in so many seconds, where there is a gateway


def commands(settings: Settings, store: Store, clock: Clock, submit: Submit) -> Processes:
    """The table of running commands; what ends there wakes its session."""
    return Processes(settings.tools.exec.process, clock, Records(store), SessionWaker(submit, clock))


def board(settings: Settings, store: Store, clock: Clock, stopping: Callable[[], bool]) -> ApprovalBoard:
    """Where questions to people are kept."""
    return ApprovalBoard(store, clock, os.path.join(settings.home, APPROVALS_FILE), stopping)


def outside(settings: Settings, catalog: Catalog, web: Web, model: Model) -> dict[str, Tool]:
    """The tools that look outside; the one for images only if a model sees."""
    eyes = VisionModel(settings, catalog, model)
    return web.tools(eyes if eyes.available() else None, shrunk)


def toolbox(views: Views) -> dict[str, Tool]:
    """Every tool there is, by name; who is offered which is the policy's business."""
    standing = SessionStatusReader(
        views.settings, views.store, views.catalog, views.clock, views.environ, views.running
    )
    web = outside(views.settings, views.catalog, views.web, views.model)
    made = every(views.memory, standing, views.others, views.nest, views.processes, web, views.schedules)
    wrote = message.make(views.post, views.settings.messaging) if views.post is not None else {}
    return {**made, **wrote, **gateway.make(gateway.Keeper(views.settings.home, views.environ, views.restart))}
