"""What of a history is sent: contextPruning, contextLimits.toolResultMaxChars and the channels' history limits. Pure.

The channels' sections are free-form: a limit that is no whole number counts as not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from palinurus.config.schema import Config
from palinurus.config.schema.agents import AgentDefaults, CompactionSection, HardClearSection, SoftTrimSection
from palinurus.config.schema.agents import PruningSection as Written
from palinurus.config.schema.tools import ToolPolicySection
from palinurus.core import durations
from palinurus.core.history.fit import TurnLimits
from palinurus.core.history.prune import PruningRules
from palinurus.core.types.keys import parse_agent_id

# `agents.defaults.compaction` with every default applied, and the two numbers that follow from a window. Pure.

PROMPT_ROOM = 8_000  # tokens that stay for the prompt, whatever is reserved: these, or half of a small window


class MemoryFlushSettings(msgspec.Struct, frozen=True):
    """compaction.memoryFlush. `soft`: so many tokens before a compaction is due."""

    enabled: bool = True
    soft: int = 4_000
    force_bytes: int = 2 << 20  # of the transcript; 0 = never by size
    prompt: str = ""
    system: str = ""
    model: str = ""


class CompactionSettings(msgspec.Struct, frozen=True):
    """When a conversation is shortened, by how much, and by whom. Tokens; times in seconds."""

    reserve: int = 16_384
    floor: int = 20_000  # 0 = none
    keep_recent: int = 20_000
    keep_asked: bool = False  # keepRecentTokens is written in the config: a /compact keeps that much too
    share: float = 0.5  # of the room for a history that recent messages may take
    recent_turns: int = 3
    retries: int = 2  # further tries when a summary is not good enough
    identifiers: Literal["strict", "off", "custom"] = "strict"
    identifier_text: str = ""
    instructions: str = ""
    model: str = ""  # "" = the session's
    timeout: float = 180.0
    notify: bool = False
    max_bytes: int = 0  # of the messages the model sees; 0 = no limit
    mid_turn: bool = True  # look between the tool calls of a turn too
    flush: MemoryFlushSettings = MemoryFlushSettings()

    def reserve_for(self, window: int) -> int:
        """Tokens of the window that the history does not get; a small window still leaves room for the prompt."""
        return min(max(self.reserve, self.floor), window - min(PROMPT_ROOM, window // 2))

    def limit(self, window: int) -> int:
        """More tokens than this and a compaction is due."""
        return window - self.reserve_for(window)


def resolve_compaction(config: Config) -> CompactionSettings:
    """The section; what is not of the right kind in its free parts counts as not written."""
    defaults = config.agents.defaults if config.agents else None
    section = (defaults.compaction if defaults else None) or CompactionSection()
    base = CompactionSettings()
    return CompactionSettings(
        reserve=_or(section.reserve_tokens, base.reserve),
        floor=_or(section.reserve_tokens_floor, base.floor),
        keep_recent=_or(section.keep_recent_tokens, base.keep_recent),
        keep_asked=section.keep_recent_tokens is not None,
        share=_or(section.max_history_share, base.share),
        recent_turns=_or(section.recent_turns_preserve, base.recent_turns),
        retries=_retries(section.quality_guard or {}, section.mode, base.retries),
        identifiers=section.identifier_policy or base.identifiers,
        identifier_text=(section.identifier_instructions or "").strip(),
        instructions=(section.custom_instructions or "").strip(),
        model=(section.model or "").strip(),
        timeout=float(section.timeout_seconds or base.timeout),
        notify=bool(section.notify_user),
        max_bytes=_bytes(section.max_active_transcript_bytes),
        mid_turn=_switch(section.mid_turn_precheck),
        flush=_flush(section.memory_flush or {}),
    )


def _flush(section: Mapping[str, Any]) -> MemoryFlushSettings:
    base = MemoryFlushSettings()
    return MemoryFlushSettings(
        enabled=section.get("enabled") is not False,
        soft=_number(section.get("softThresholdTokens"), base.soft),
        force_bytes=_number(section.get("forceFlushTranscriptBytes"), base.force_bytes),
        prompt=_words(section.get("prompt")),
        system=_words(section.get("systemPrompt")),
        model=_words(section.get("model")),
    )


def _retries(section: Mapping[str, Any], mode: str | None, otherwise: int) -> int:
    on = section.get("enabled")
    if on is False or (on is None and mode == "default"):
        return 0
    return min(3, _number(section.get("maxRetries"), otherwise))


def _switch(value: Mapping[str, Any] | bool | None) -> bool:
    return value is not False and not (isinstance(value, Mapping) and value.get("enabled") is False)


_UNITS = {"kb": 1 << 10, "k": 1 << 10, "mb": 1 << 20, "m": 1 << 20, "gb": 1 << 30, "g": 1 << 30, "b": 1}


def _bytes(value: str | int | None) -> int:
    text = str(value or "").strip().lower().replace(" ", "")
    for unit, factor in _UNITS.items():
        if text.endswith(unit) and text[: -len(unit)].isdecimal():
            return int(text[: -len(unit)]) * factor
    return int(text) if text.isdecimal() else 0


def _number(value: Any, otherwise: int) -> int:
    return value if type(value) is int and value >= 0 else otherwise


def _words(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


class ContextSettings(msgspec.Struct, frozen=True):
    """`turns` by channel; `result_chars` by agent, under "" for all others."""

    pruning: PruningRules = PruningRules()
    turns: dict[str, TurnLimits] = {}
    result_chars: dict[str, int] = {}

    def results(self, agent: str) -> int | None:
        """Characters of one tool result; None: by the model's window."""
        return self.result_chars.get(agent) or self.result_chars.get("")


def resolve_context(config: Config) -> ContextSettings:
    """The settings; durations have been checked by `resolve`."""
    agents = config.agents
    defaults = (agents.defaults if agents else None) or AgentDefaults()
    entries = {entry.id or "": entry for entry in (agents.listed if agents else None) or ()}
    entries |= (agents.entries if agents else None) or {}
    sizes = {
        parse_agent_id(key) or "": _count((entry.context_limits or {}).get(_RESULT)) for key, entry in entries.items()
    }
    sizes[""] = _count((defaults.context_limits or {}).get(_RESULT))
    return ContextSettings(
        pruning=_pruning(defaults.context_pruning),
        turns={name.lower(): _turns(body) for name, body in (config.channels or {}).items() if name != "defaults"},
        result_chars={key: size for key, size in sizes.items() if size},
    )


_RESULT = "toolResultMaxChars"


def _turns(body: Mapping[str, Any]) -> TurnLimits:
    people = body.get("dms")
    own = people if isinstance(people, dict) else {}
    limits: dict[str, Any] = {
        str(peer).lower(): one.get("historyLimit") for peer, one in own.items() if isinstance(one, dict)
    }
    return TurnLimits(
        group=_count(body.get("historyLimit")),
        direct=_count(body.get("dmHistoryLimit")),
        people={peer: limit for peer, limit in limits.items() if _whole(limit)},
    )


def _pruning(written: Written | None) -> PruningRules:
    """Where maxCharsPerToolResult is set, cache-ttl trims to it too, split by toolResultHeadRatio."""
    base = PruningRules()
    if written is None:
        return base
    trim, clear = written.soft_trim or SoftTrimSection(), written.hard_clear or HardClearSection()
    tools = written.tools or ToolPolicySection()
    most, ratio = written.max_chars_per_tool_result, _or(written.tool_result_head_ratio, base.head_ratio)
    head = base.head if most is None else round(most * ratio)
    tail = base.tail if most is None else most - head
    return PruningRules(
        mode=written.mode or base.mode,
        ttl=_or(durations.parse_duration(written.ttl, "m") if written.ttl not in (None, "") else None, base.ttl),
        keep_assistants=_or(written.keep_last_assistants, base.keep_assistants),
        soft_ratio=_or(written.soft_trim_ratio, base.soft_ratio),
        hard_ratio=_or(written.hard_clear_ratio, base.hard_ratio),
        least=_or(written.min_prunable_tool_chars, base.least),
        soft_most=_or(trim.max_chars, most or base.soft_most),
        head=_or(trim.head_chars, head),
        tail=_or(trim.tail_chars, tail),
        clear=clear.enabled is not False,
        placeholder=clear.placeholder or base.placeholder,
        allow=tuple(name.strip().lower() for name in tools.allow or ()),
        deny=tuple(name.strip().lower() for name in tools.deny or ()),
        most=most or base.most,
        head_ratio=ratio,
        after_turns=_or(written.prune_after_turns, base.after_turns),
    )


def _or(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _count(value: Any) -> int | None:
    return value if _whole(value) and value else None
