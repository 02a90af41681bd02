"""What of a history is sent: contextPruning, contextLimits.toolResultMaxChars and the channels' history limits. Pure.

The channels' sections are free-form: a limit that is no whole number counts as not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.config import durations
from palinurus.config.schema import Config
from palinurus.config.schema.agents import AgentDefaults, HardClearSection, SoftTrimSection
from palinurus.config.schema.agents import PruningSection as Written
from palinurus.config.schema.tools import ToolPolicySection
from palinurus.core.history.limit import TurnLimits
from palinurus.core.history.prune import PruningRules
from palinurus.core.types.keys import parse_agent_id


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
