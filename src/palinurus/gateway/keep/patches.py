"""What sessions.patch means for a session's record: one row per field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from palinurus.core.levels import spellings, thinking
from palinurus.core.policy import modes
from palinurus.core.types.model import ModelSpec
from palinurus.gateway.rpc import MethodError
from palinurus.inbox.commands.command import CommandContext
from palinurus.services.facts import SessionFacts, find_meant_model, gather_facts

_NO_MODEL = (
    "providerOverride", "modelOverride", "modelOverrideSource", "authProfileOverride", "authProfileOverrideSource",
)  # fmt: skip


def make_record_changes(now: SessionFacts, program: CommandContext, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The record's fields to change; None clears one. Raises MethodError with nothing done."""
    made: dict[str, Any] = {}
    if "model" in wanted:
        made |= _model(now, program, wanted["model"])
        if made.get("modelOverride") is not None:
            found = program.catalog.find(f"{made['providerOverride']}/{made['modelOverride']}", now.agent)
            now = gather_facts(program, now.key, now.record, found if isinstance(found, ModelSpec) else None)
        stored = now.record.thinkingLevel
        if stored is not None and "thinking_level" not in wanted:
            made["thinkingLevel"] = thinking.remap_level(stored, now.offered)
    for name, value in wanted.items():
        row = _ROWS.get(name)
        if row is not None:
            field, meaning = row
            made[field] = None if value is None else meaning(now, value)
    return made


def _model(now: SessionFacts, program: CommandContext, value: str | None) -> dict[str, Any]:
    if value is None or spellings.is_clear_word(value):
        return dict.fromkeys(_NO_MODEL)
    found = find_meant_model(program.catalog, now.agent, value)
    if isinstance(found, str):
        raise MethodError(f"invalid model: {found}")
    return {
        **dict.fromkeys(_NO_MODEL),
        "providerOverride": found.ref.provider,
        "modelOverride": found.ref.model,
        "modelOverrideSource": "user",
    }


def _thinking(now: SessionFacts, value: str) -> str:
    level = thinking.parse_level(value, now.offered)
    offered = "|".join(thinking.list_level_ids(now.offered))
    if level is None:
        raise MethodError(f"invalid thinkingLevel (use {offered})")
    if not thinking.is_offered(level, now.offered):
        raise MethodError(f'thinkingLevel "{level}" is not supported for {now.model.ref} (use {offered})')
    return level


def _tags(value: list[str]) -> tuple[str, ...] | None:
    made = tuple(dict.fromkeys(" ".join(tag.split()) for tag in value if tag.strip()))
    if len(made) > 12:
        raise MethodError("a conversation has at most 12 tags")
    return made or None


def _fast(now: SessionFacts, value: bool | str) -> bool | str:
    if isinstance(value, bool):
        return value
    word = spellings.parse_fast(value)
    if word is None:
        raise MethodError("invalid fastMode (use true|false|auto)")
    return {"on": True, "off": False}.get(word, word)


def _word(field: str, meaning: Callable[[object], str | None], offered: str) -> Callable[[SessionFacts, str], str]:
    def check(now: SessionFacts, value: str) -> str:
        word = meaning(value)
        if word is None:
            raise MethodError(f"invalid {field} (use {offered})")
        return word

    return check


def _one_of(field: str, *offered: str) -> Callable[[SessionFacts, str], str]:
    return _word(field, lambda value: value if value in offered else None, "|".join(offered))


_ROWS: dict[str, tuple[str, Callable[[SessionFacts, Any], Any]]] = {
    "label": ("label", lambda now, value: value.strip()),
    "pinned": ("pinned", lambda now, value: value or None),
    "archived": ("archivedAt", lambda now, value: value or None),
    "tags": ("tags", lambda now, value: _tags(value)),
    "thinking_level": ("thinkingLevel", _thinking),
    "fast_mode": ("fastMode", _fast),
    "verbose_level": ("verboseLevel", _word("verboseLevel", spellings.parse_verbose, "on|off|full")),
    "trace_level": ("traceLevel", _word("traceLevel", spellings.parse_trace, "on|off")),
    "reasoning_level": ("reasoningLevel", _word("reasoningLevel", spellings.parse_reasoning, "on|off|stream")),
    "response_usage": ("responseUsage", _one_of("responseUsage", "off", "tokens", "full", "on")),
    "elevated_level": ("elevatedLevel", _word("elevatedLevel", spellings.parse_elevated, "on|off|ask|full")),
    "permission_mode": ("permissionMode", _word("permissionMode", modes.parse_mode, "|".join(modes.MODES))),
    "exec_host": ("execHost", _one_of("execHost", "auto", "sandbox", "gateway", "node")),
    "exec_security": ("execSecurity", _one_of("execSecurity", "deny", "allowlist", "full")),
    "exec_ask": ("execAsk", _one_of("execAsk", "off", "on-miss", "always")),
    "exec_node": ("execNode", lambda now, value: value),
    "send_policy": ("sendPolicy", _one_of("sendPolicy", "allow", "deny")),
    "group_activation": ("groupActivation", _one_of("groupActivation", "mention", "always")),
    "queue_mode": ("queueMode", _one_of("queueMode", "steer", "followup", "collect", "interrupt", "queue")),
}
