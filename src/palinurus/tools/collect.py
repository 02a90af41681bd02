"""Which tools there are: one table. A new tool is a new row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from palinurus.core.types.tool import Tool
from palinurus.tools.commands import exec, process
from palinurus.tools.commands.table import CommandTable
from palinurus.tools.define import bind_tools
from palinurus.tools.files import edit, ls, patch, read, write
from palinurus.tools.program import cron, memory, plan, session, subagents
from palinurus.tools.program.cron import SchedulerPort
from palinurus.tools.program.memory import MemoryPort
from palinurus.tools.program.session import SessionsPort, SessionStatusPort
from palinurus.tools.program.subagents import AgentsPort, SubagentsPort
from palinurus.tools.search import tools

_TOOLS: tuple[Tool, ...] = (
    read.read_file,
    write.write_file,
    edit.edit_file,
    patch.apply_patch,
    ls.list_folder,
    tools.find_files,
    tools.grep_files,
    plan.update_plan,
)


def make_builtin_tools(processes: CommandTable | None = None) -> dict[str, Tool]:
    """The tools that come with Palinurus, by name, in the order the model is told of them."""
    table = processes or CommandTable()
    return {**{tool.name: tool for tool in _TOOLS}, **bind_tools((exec.run_exec, process.run_process), table)}


class SessionsAndAgents(SessionsPort, AgentsPort, Protocol):
    """The sessions and agents besides the one that asks."""


def make_all_tools(
    memories: MemoryPort,
    status: SessionStatusPort,
    others: SessionsAndAgents,
    children: SubagentsPort,
    processes: CommandTable | None = None,
    web: Mapping[str, Tool] = {},
    schedules: SchedulerPort | None = None,
) -> dict[str, Tool]:
    """All tools: those that need nothing, and those that see a part of the program through a port."""
    seen = {
        **memory.make_memory_tools(memories),
        **session.make_status_tool(status),
        **session.make_session_tools(others),
        **subagents.make_agents_tool(others),
    }
    return {
        **make_builtin_tools(processes),
        **seen,
        **subagents.make_subagent_tools(children),
        **web,
        **cron.make_cron_tool(schedules),
    }
