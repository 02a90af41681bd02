"""agents.*.subagents with every default applied: how many, how long, with which model. Pure.

How deep they may go is in `Settings.policy`, whom they may be in `Settings.reach`, how many run at once in
`Settings.lanes`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from palinurus.config.schema import Config
from palinurus.config.schema.agents import AgentDefaults, AgentEntry, AgentsSection, SubagentsSection
from palinurus.config.schema.words import ModelSpec
from palinurus.core.types.keys import parse_agent_id


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
