"""The config keys about workspace files and skills -> settings: budgets of the agents, and the `skills` section.

`skills.load`, `.limits` and `.entries` are free-form: what is not of the right kind there counts as not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.config import paths
from palinurus.config.check import ConfigFinding
from palinurus.config.fetch import resolve_loose_secret
from palinurus.config.keypath import Path
from palinurus.config.schema import Config
from palinurus.config.schema.agents import AgentDefaults, AgentEntry
from palinurus.config.schema.rest import SkillsSection
from palinurus.config.settings import AgentSettings, Secret, SkillEntry, SkillSettings
from palinurus.core.memory.values import read_memory_options
from palinurus.core.types.keys import parse_agent_id


def add_workspace_settings(
    agents: Mapping[str, AgentSettings], written: Mapping[str, AgentEntry], config: Config
) -> dict[str, AgentSettings]:
    """The agents, each with its budgets for files and skills and its list of skills."""
    entries = {parse_agent_id(key): entry for key, entry in written.items()}
    defaults = (config.agents.defaults if config.agents else None) or AgentDefaults()
    return {key: _agent(agent, entries.get(key) or AgentEntry(), defaults) for key, agent in agents.items()}


def _agent(agent: AgentSettings, own: AgentEntry, shared: AgentDefaults) -> AgentSettings:
    listed = own.skills if own.skills is not None else shared.skills
    limit = _count((own.skills_limits or {}).get("maxSkillsPromptChars"))
    limit = limit or _count((shared.skills_limits or {}).get("maxSkillsPromptChars"))
    return msgspec.structs.replace(
        agent,
        bootstrap_chars=own.bootstrap_max_chars or shared.bootstrap_max_chars or agent.bootstrap_chars,
        bootstrap_total=own.bootstrap_total_max_chars or shared.bootstrap_total_max_chars or agent.bootstrap_total,
        skills=None if listed is None else tuple(listed),
        skills_chars=limit or None,
        memory=read_memory_options(
            (shared.memory_search or {}, own.memory_search or {}),
            (shared.context_limits or {}, own.context_limits or {}),
            agent.prompt.citations,
        ),
        image_side=shared.image_max_dimension_px or agent.image_side,
        time_format=shared.time_format or agent.time_format,
    )


def resolve_skills(
    config: Config, home: str, environ: Mapping[str, str], findings: list[ConfigFinding]
) -> SkillSettings:
    """The `skills` section; a secret that cannot be found is a finding."""
    section = config.skills or SkillsSection()
    load, limits, base = section.load or {}, section.limits or {}, SkillSettings()
    return SkillSettings(
        entries={key: _entry(key, body, environ, findings) for key, body in (section.entries or {}).items()},
        bundled=None if section.allow_bundled is None else tuple(section.allow_bundled),
        extra=tuple(paths.expand_path(path, environ, home) for path in _texts(load.get("extraDirs"))),
        targets=tuple(paths.expand_path(path, environ, home) for path in _texts(load.get("allowSymlinkTargets"))),
        candidates=_count(limits.get("maxCandidatesPerRoot")) or base.candidates,
        loaded=_count(limits.get("maxSkillsLoadedPerSource")) or base.loaded,
        listed=_count(limits.get("maxSkillsInPrompt")) or base.listed,
        chars=_count(limits.get("maxSkillsPromptChars")) or base.chars,
        file_bytes=_count(limits.get("maxSkillFileBytes")) or base.file_bytes,
    )


def _entry(key: str, body: dict[str, Any], environ: Mapping[str, str], findings: list[ConfigFinding]) -> SkillEntry:
    path: Path = ("skills", "entries", key)
    told = body.get("env")
    told = told if isinstance(told, dict) else {}
    return SkillEntry(
        enabled=body.get("enabled") is not False,
        key=resolve_loose_secret(body.get("apiKey"), (*path, "apiKey"), environ, findings),
        env={name: Secret(value) for name, value in told.items() if isinstance(value, str)},
    )


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str) and one.strip()] if isinstance(value, list) else []


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
