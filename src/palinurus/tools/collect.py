"""Which tools there are: one table. A new tool is a new row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from palinurus.core.types.tool import Tool
from palinurus.tools import agents, cron, edit, exec, ls, memory, plan, read, sessions, spawn, status, write
from palinurus.tools.agents import AgentsPort
from palinurus.tools.cron import SchedulerPort
from palinurus.tools.memory import MemoryPort
from palinurus.tools.patch import tool as patch
from palinurus.tools.process import tool as process
from palinurus.tools.process.table import CommandTable
from palinurus.tools.search import find, grep
from palinurus.tools.sessions import SessionsPort
from palinurus.tools.spawn import SubagentsPort
from palinurus.tools.status import SessionStatusPort

_TOOLS: tuple[Tool, ...] = (
    read.READ_TOOL,
    write.WRITE_TOOL,
    edit.EDIT_TOOL,
    patch.APPLY_PATCH_TOOL,
    ls.LS_TOOL,
    find.FIND_TOOL,
    grep.GREP_TOOL,
    plan.PLAN_TOOL,
)


def make_builtin_tools(processes: CommandTable | None = None) -> dict[str, Tool]:
    """The tools that come with Palinurus, by name, in the order the model is told of them."""
    table = processes or CommandTable()
    return {**{tool.name: tool for tool in _TOOLS}, **exec.make_exec_tool(table), **process.make_process_tool(table)}


class SessionsAndAgents(SessionsPort, AgentsPort, Protocol):
    """The sessions and agents besides the one that asks."""


def make_all_tools(
    recall: MemoryPort,
    standing: SessionStatusPort,
    others: SessionsAndAgents,
    nest: SubagentsPort,
    processes: CommandTable | None = None,
    web: Mapping[str, Tool] = {},
    schedules: SchedulerPort | None = None,
) -> dict[str, Tool]:
    """All tools: those that need nothing, and those that see a part of the program through a port."""
    seen = {
        **memory.make_memory_tools(recall),
        **status.make_status_tool(standing),
        **sessions.make_session_tools(others),
        **agents.make_agents_tool(others),
    }
    return {
        **make_builtin_tools(processes),
        **seen,
        **spawn.make_subagent_tools(nest),
        **web,
        **cron.make_cron_tool(schedules),
    }
