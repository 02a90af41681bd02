"""Which tools there are: one table. A new tool is a new row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from palinurus.core.types.tool import Tool
from palinurus.tools import agents, cron, edit, exec, ls, memory, plan, read, sessions, spawn, status, write
from palinurus.tools.agents import Agents
from palinurus.tools.cron import Schedules
from palinurus.tools.memory import Recall
from palinurus.tools.patch import tool as patch
from palinurus.tools.process import tool as process
from palinurus.tools.process.table import Processes
from palinurus.tools.search import find, grep
from palinurus.tools.sessions import Reach
from palinurus.tools.spawn import Nest
from palinurus.tools.status import Status

_TOOLS: tuple[Tool, ...] = (read.TOOL, write.TOOL, edit.TOOL, patch.TOOL, ls.TOOL, find.TOOL, grep.TOOL, plan.TOOL)


def builtin(processes: Processes | None = None) -> dict[str, Tool]:
    """The tools that come with Palinurus, by name, in the order the model is told of them."""
    table = processes or Processes()
    return {**{tool.name: tool for tool in _TOOLS}, **exec.make(table), **process.make(table)}


class Others(Reach, Agents, Protocol):
    """The sessions and agents besides the one that asks."""


def every(
    recall: Recall,
    standing: Status,
    others: Others,
    nest: Nest,
    processes: Processes | None = None,
    web: Mapping[str, Tool] = {},
    schedules: Schedules | None = None,
) -> dict[str, Tool]:
    """All tools: those that need nothing, and those that see a part of the program through a port."""
    seen = {**memory.make(recall), **status.make(standing), **sessions.make(others), **agents.make(others)}
    return {**builtin(processes), **seen, **spawn.make(nest), **web, **cron.make(schedules)}
