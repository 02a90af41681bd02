"""The config keys that shape system prompts -> `PromptSettings` of each agent.

Several stand in sections that are otherwise free-form: what is not of the right kind there counts as not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.config import durations
from palinurus.config.schema import Config
from palinurus.config.schema.agents import AgentDefaults, AgentEntry, SharedAgentSection
from palinurus.config.settings import AgentSettings, PromptSettings, Secret
from palinurus.core.types.keys import parse_agent_id

HEARTBEAT = 1800.0  # seconds between heartbeats when nobody says


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
    own, shared = entry.heartbeat, defaults.heartbeat

    def pick(name: str) -> Any:
        found = (getattr(beat, name) for beat in (own, shared) if beat is not None)
        return next((value for value in found if value is not None), None)

    every = pick("every")
    seconds = durations.parse_duration(every, "m") if every not in (None, "") else None
    return {
        "heartbeat": str(pick("prompt") or "").strip(),
        "heartbeat_every": HEARTBEAT if seconds is None else float(seconds),
        "heartbeat_section": pick("include_system_prompt_section") is not False,
    }


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
    entries = (config.plugins.entries if config.plugins else None) or {}
    overlay = (defaults.prompt_overlays or {}).get("gpt5")
    plugin = (entries.get("openai") or {}).get("config")
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
