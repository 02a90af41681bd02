"""The tools of this program: those that need nothing, and those that see a part of it through a port."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.tool import Tool
from palinurus.inbox.standing import Standing
from palinurus.providers.catalog import Catalog
from palinurus.store.port import Store
from palinurus.tools.collect import every
from palinurus.workspace.memory.shelf import Shelf as Memories


class Views(NamedTuple):
    """What tools may see of the program."""

    settings: Settings
    store: Store
    catalog: Catalog
    clock: Clock
    environ: Mapping[str, str]
    memory: Memories
    running: Callable[[str], bool]  # does a turn of this session run now?


def toolbox(views: Views) -> dict[str, Tool]:
    """Every tool there is, by name; who is offered which is the policy's business."""
    standing = Standing(views.settings, views.store, views.catalog, views.clock, views.environ, views.running)
    return every(views.memory, standing)
