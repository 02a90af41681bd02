"""agents_list: which agents a session may start sub-agents of. Made for an `Agents`; knows no config."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output


class AgentListing(NamedTuple):
    id: str
    name: str
    configured: bool


class AgentsPort(Protocol):
    """Who knows the agents."""

    def agents(self, caller: str) -> tuple[bool, list[AgentListing]]:
        """For the agent `caller`: may it start any agent, and which there are for it, itself first."""
        ...


def make_agents_tool(agents: AgentsPort) -> dict[str, Tool]:
    """The tool, by its name."""
    tool = msgspec.structs.replace(_TOOL, run=partial(_list, agents))
    return {tool.name: tool}


async def _list(agents: AgentsPort, ctx: ToolContext) -> ToolOutput:
    anyone, found = agents.agents(ctx.agent)
    body = {"requester": ctx.agent, "allowAny": anyone, "agents": [agent._asdict() for agent in found]}
    return make_output(msgspec.json.format(msgspec.json.encode(body), indent=2).decode(), body)


async def _nobody(ctx: ToolContext, **_: Any) -> ToolOutput:
    raise ToolFailure("nobody knows about agents here")


_TOOL = Tool(
    name="agents_list",
    description="List the agents that sub-agents may be started of from here (agentId of sessions_spawn).",
    parameters={"type": "object", "properties": {}},
    run=_nobody,
    effect="pure",
)
