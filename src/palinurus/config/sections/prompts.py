"""The config keys that shape system prompts -> `PromptSettings` of each agent.

Several stand in sections that are otherwise free-form: what is not of the right kind there counts as not written.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.config import paths
from palinurus.config.declare import fill_section
from palinurus.config.findings import ConfigFinding, ConfigPlace
from palinurus.config.forms import merge_raw, resolve_loose_secret
from palinurus.config.keypath import Path
from palinurus.config.schema import Config
from palinurus.config.schema.agents import AgentDefaults, AgentEntry, SharedAgentSection
from palinurus.config.schema.rest import SkillsSection
from palinurus.config.sections.schedule import HeartbeatSettings
from palinurus.config.settings import AgentSettings, PromptSettings, Secret, SkillEntry, SkillSettings
from palinurus.core.memory.results import read_memory_options
from palinurus.core.types.keys import parse_agent_id

# The config keys about workspace files and skills -> settings: budgets of the agents, and the `skills` section.
#
# `skills.load`, `.limits` and `.entries` are free-form: what is not of the right kind there counts as not written.


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
        key=resolve_loose_secret(body.get("apiKey"), ConfigPlace("", environ, findings, (*path, "apiKey"))),
        env={name: Secret(value) for name, value in told.items() if isinstance(value, str)},
    )


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str) and one.strip()] if isinstance(value, list) else []


def add_prompt_settings(
    agents: Mapping[str, AgentSettings], written: Mapping[str, AgentEntry], config: Config
) -> dict[str, AgentSettings]:
    """The agents, each with its prompt settings."""
    entries = {parse_agent_id(key): entry for key, entry in written.items()}
    defaults = (config.agents.defaults if config.agents else None) or AgentDefaults()
    return {
        key: msgspec.structs.replace(agent, prompt=_prompt(entries.get(key) or AgentEntry(), defaults, config))
        for key, agent in agents.items()
    }


def _prompt(entry: AgentEntry, defaults: AgentDefaults, config: Config) -> PromptSettings:
    base = PromptSettings()
    commands = config.commands or {}
    said = _said(entry, defaults, config)
    beat = _heartbeat(entry, defaults)
    silent = _word((defaults.silent_reply or {}).get("group"), ("allow", "disallow"), base.silent_group)
    return PromptSettings(
        owners=tuple(str(one) for one in _list(commands.get("ownerAllowFrom"))),
        owner_display=_word(commands.get("ownerDisplay"), ("raw", "hash"), base.owner_display),
        owner_secret=Secret(str(commands.get("ownerDisplaySecret") or "")),
        citations=_word((config.memory or {}).get("citations"), ("auto", "on", "off"), base.citations),
        delegation=_delegation(entry) or _delegation(defaults) or base.delegation,
        voice=_word(said.get("auto"), ("off", "always", "inbound", "tagged"), base.voice),
        voice_limit=_count(said.get("maxTextLength") or said.get("maxLength")),
        silent_group=silent,
        truncation_warning=defaults.bootstrap_prompt_truncation_warning or base.truncation_warning,
        friendly=_friendly(defaults, config),
        repo_root=(defaults.repo_root or "").strip(),
        tool_only=_tool_only(entry, config),
        **beat,
    )


def _said(entry: AgentEntry, defaults: AgentDefaults, config: Config) -> dict[str, Any]:
    """The voice settings, the more particular over the more general."""
    general = (config.messages.tts if config.messages else None) or {}
    return {**(config.tts or {}), **general, **(defaults.tts or {}), **(entry.tts or {})}


def _heartbeat(entry: AgentEntry, defaults: AgentDefaults) -> dict[str, Any]:
    told = merge_raw(entry.heartbeat, defaults.heartbeat)
    beat = fill_section(HeartbeatSettings, told, ConfigPlace("", {}, []))
    return {"heartbeat": beat.prompt, "heartbeat_every": beat.every, "heartbeat_section": beat.section}


def _tool_only(entry: AgentEntry, config: Config) -> tuple[str, ...]:
    """Chats whose replies go through the message tool only: visibleReplies, for groups over the one for all."""
    shared = config.messages
    chats = (entry.group_chat, shared.group_chat if shared else None)
    everywhere = shared.visible_replies if shared else None
    group = next((chat.visible_replies for chat in chats if chat and chat.visible_replies), everywhere)
    kinds = ("direct",) if everywhere == "message_tool" else ()
    return (*kinds, "group", "channel") if group == "message_tool" else kinds


def _delegation(section: SharedAgentSection) -> str | None:
    return section.subagents.delegation_mode if section.subagents else None


def _friendly(defaults: AgentDefaults, config: Config) -> bool:
    """Two spellings: promptOverlays.gpt5.personality, and the OpenAI plugin's older one."""
    overlay = (defaults.prompt_overlays or {}).get("gpt5")
    plugin = config.plugins.entries["openai"].config if "openai" in config.plugins.entries else None
    for section in (overlay, plugin):
        word = section.get("personality") if isinstance(section, dict) else None
        if word is not None:
            return word not in ("off", False)
    return True


def _word(value: Any, known: tuple[str, ...], default: str) -> str:
    return value if isinstance(value, str) and value in known else default


def _list(value: Any) -> list[Any]:
    return [one for one in value if isinstance(one, str | int)] if isinstance(value, list) else []


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
