"""Which sessions and agents a session may see and write to: tools.sessions, tools.agentToAgent, subagents.allowAgents.

Values with every default applied; who is who is decided in `inbox/reach.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal, TypeAlias

import msgspec

from palinurus.config.schema import Config
from palinurus.config.schema.agents import AgentDefaults, AgentEntry, AgentsSection, SharedAgentSection
from palinurus.config.schema.tools import AgentToAgentSection, SessionToolsSection, ToolsSection
from palinurus.core.types.keys import parse_agent_id

Visibility: TypeAlias = Literal["self", "tree", "agent", "all"]


class ReachSettings(msgspec.Struct, frozen=True):
    visibility: Visibility = "tree"
    across: bool = False  # tools.agentToAgent.enabled
    allow: tuple[str, ...] = ()  # tools.agentToAgent.allow: agents, `*` is all
    spawn: dict[str, tuple[str, ...]] = {}  # agent -> the agents it may start sub-agents of, besides itself
    boxed: dict[str, str] = {}  # agent -> how far its sandboxed sessions see: spawned | all


def resolve_reach(config: Config, agents: Collection[str]) -> ReachSettings:
    """The settings."""
    tools = config.tools or ToolsSection()
    between = tools.agent_to_agent or AgentToAgentSection()
    written = dict(_written(config.agents or AgentsSection()))
    defaults = (config.agents.defaults if config.agents else None) or AgentDefaults()
    said: dict[str, tuple[SharedAgentSection, ...]] = {
        key: (written[key], defaults) if key in written else (defaults,) for key in agents
    }
    return ReachSettings(
        (tools.sessions or SessionToolsSection()).visibility or "tree",
        bool(between.enabled),
        tuple(word.strip().lower() for word in between.allow or ()),
        {key: _spawn(where) for key, where in said.items()},
        {key: _boxed(where) for key, where in said.items()},
    )


def _written(section: AgentsSection) -> Iterator[tuple[str, AgentEntry]]:
    for entry in section.listed or ():
        yield parse_agent_id(entry.id or "") or "", entry
    for name, entry in (section.entries or {}).items():
        yield parse_agent_id(name) or "", entry


def _spawn(said: tuple[SharedAgentSection, ...]) -> tuple[str, ...]:
    lists = (s.subagents.allow_agents for s in said if s.subagents)
    found = next((names for names in lists if names is not None), [])
    return tuple(name.strip().lower() for name in found)


def _boxed(said: tuple[SharedAgentSection, ...]) -> str:
    words = (s.sandbox.session_tools_visibility for s in said if s.sandbox)
    return next((word for word in words if word), "spawned")
