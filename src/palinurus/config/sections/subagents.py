"""agents.*.subagents with every default applied: how many, how long, with which model. Pure.

How deep they may go is in `Settings.policy`, whom they may be in `Settings.reach`, how many run at once in
`Settings.lanes`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal, TypeAlias

import msgspec

from palinurus.config.forms import ModelSpec
from palinurus.config.schema import Config
from palinurus.config.schema.agents import (
    AgentDefaults,
    AgentEntry,
    AgentsSection,
    SharedAgentSection,
    SubagentsSection,
)
from palinurus.config.schema.tools import AgentToAgentSection, SessionToolsSection, ToolsSection
from palinurus.core.types.keys import parse_agent_id

# Which sessions and agents a session may see and write to: tools.sessions, tools.agentToAgent, subagents.allowAgents.
#
# Values with every default applied; who is who is decided in `inbox/reach.py`.

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


def _spawn(said: tuple[SharedAgentSection, ...]) -> tuple[str, ...]:
    lists = (s.subagents.allow_agents for s in said if s.subagents)
    found = next((names for names in lists if names is not None), [])
    return tuple(name.strip().lower() for name in found)


def _boxed(said: tuple[SharedAgentSection, ...]) -> str:
    words = (s.sandbox.session_tools_visibility for s in said if s.sandbox)
    return next((word for word in words if word), "spawned")


class SubagentSettings(msgspec.Struct, frozen=True):
    """Of one agent. Times in seconds."""

    children: int = 5  # that one session may have going at once
    model: str = ""  # "" = the agent's own
    thinking: str = ""  # "" = the agent's own
    timeout: float = 0.0  # of one run; 0 = the agent's
    archive_after: float = 3600.0  # a finished one's session goes after this; 0 = never
    named: bool = False  # requireAgentId: whoever starts one says which agent it is to be


def resolve_subagents(config: Config, agents: Collection[str]) -> dict[str, SubagentSettings]:
    """By agent: its own words, then those of agents.defaults."""
    section = config.agents or AgentsSection()
    shared = (section.defaults or AgentDefaults()).subagents or SubagentsSection()
    written = {key: entry.subagents or SubagentsSection() for key, entry in _written(section)}
    return {key: _settings(written.get(key, SubagentsSection()), shared) for key in agents}


def _written(section: AgentsSection) -> Iterator[tuple[str, AgentEntry]]:
    for entry in section.listed or ():
        yield parse_agent_id(entry.id or "") or "", entry
    for name, entry in (section.entries or {}).items():
        yield parse_agent_id(name) or "", entry


def _settings(own: SubagentsSection, shared: SubagentsSection) -> SubagentSettings:
    base = SubagentSettings()
    archive = own.archive_after_minutes if own.archive_after_minutes is not None else shared.archive_after_minutes
    limit = own.run_timeout_seconds if own.run_timeout_seconds is not None else shared.run_timeout_seconds
    named = own.require_agent_id if own.require_agent_id is not None else shared.require_agent_id
    return SubagentSettings(
        own.max_children_per_agent or shared.max_children_per_agent or base.children,
        _primary(own.model) or _primary(shared.model),
        own.thinking or shared.thinking or "",
        float(limit or 0),
        base.archive_after if archive is None else archive * 60.0,
        bool(named),
    )


def _primary(model: ModelSpec | None) -> str:
    return (model if isinstance(model, str) else model.primary or "") if model else ""
