"""Directives with several settings, /queue (how messages wait) and /exec (how commands run), and who may use
/elevated. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from palinurus.config.sections.approvals import AgentExecRules
from palinurus.config.sections.session import QueueSettings
from palinurus.core.durations import parse_duration
from palinurus.core.levels import spellings
from palinurus.core.levels.parse import Directive
from palinurus.core.levels.spellings import QUEUE_DROPS, QUEUE_WORDS
from palinurus.core.policy.exec import list_elevation_blocks
from palinurus.core.types.inbound import Inbound
from palinurus.patterns import compile_late
from palinurus.sessions.record import SessionRecord

Said: TypeAlias = tuple[str, Mapping[str, Any], bool]  # text, changes, refused

MAX_DEBOUNCE = 600.0  # seconds
MAX_CAP = 1000
QUEUE_FIELDS = ("queueMode", "queueDebounceMs", "queueCap", "queueDrop")
_FLAT = compile_late(r"[_-]+")
_MODES = ", ".join(dict.fromkeys(QUEUE_WORDS.values()))
_QUEUE_OPTIONS = f"Options: modes {_MODES}; debounce:<ms|s|m>, cap:<n>, drop:{'|'.join(QUEUE_DROPS)}; default."

# Fields of the record's file format, kept in its `extra`; `agent/plan/levels.py` reads them.
EXEC: dict[str, tuple[str, tuple[str, ...]]] = {
    "host": ("execHost", ("auto", "sandbox", "gateway", "node")),
    "security": ("execSecurity", ("deny", "allowlist", "full")),
    "ask": ("execAsk", ("off", "on-miss", "always")),
    "node": ("execNode", ()),
}


def apply_queue(directive: Directive, record: SessionRecord, settings: QueueSettings, channel: str) -> Said:
    """Ask, set or clear how messages wait while the agent works."""
    raw = directive.raw
    if (raw is None and not directive.options) or (raw or "").lower() == "status":
        return f"Current queue settings: {format_queue(record, settings, channel)}.\n{_QUEUE_OPTIONS}", {}, False
    changes: dict[str, Any] = {}
    said: list[str] = []
    if raw is not None and spellings.is_clear_word(raw):
        changes.update(dict.fromkeys(QUEUE_FIELDS))
        said.append("Queue mode reset to default.")
    elif raw is not None:
        mode = QUEUE_WORDS.get(_FLAT.sub("", raw.lower()))
        if mode is None:
            return f'Unrecognized queue mode "{raw[:64]}". Valid modes: {_MODES}.', {}, True
        changes["queueMode"] = mode
        said.append(f"Queue mode set to {mode}.")
    for name, value in directive.options:
        field, found = _option(name, value)
        if found is None:
            return f'Invalid queue {name} "{value[:64]}". {_QUEUE_OPTIONS}', {}, True
        changes[field] = found
        said.append(f"Queue {name} set to {found}{'ms' if name == 'debounce' else ''}.")
    return " ".join(said), changes, False


def _option(name: str, value: str) -> tuple[str, int | str | None]:
    if name == "debounce":
        wait = parse_duration(value, "ms")
        return "queueDebounceMs", int(wait * 1000) if wait is not None and wait <= MAX_DEBOUNCE else None
    if name == "cap":
        good = value.isascii() and value.isdigit() and 0 < int(value[:9]) <= MAX_CAP
        return "queueCap", int(value) if good and len(value) < 9 else None
    return "queueDrop", value.lower() if value.lower() in QUEUE_DROPS else None


def format_queue(record: SessionRecord, settings: QueueSettings, channel: str) -> str:
    """mode, debounce, cap and drop policy that apply."""
    mode = record.queueMode or settings.by_channel.get(channel) or settings.mode
    wait = record.queueDebounceMs
    if wait is None:
        wait = int(settings.debounce_by_channel.get(channel, settings.debounce) * 1000)
    cap = record.queueCap or settings.cap
    return f"mode={mode}, debounce={wait}ms, cap={cap}, drop={record.queueDrop or settings.drop}"


def check_elevation(directive: Directive, inbound: Inbound, rules: AgentExecRules | None) -> tuple[str, ...]:
    """Why the level asked for cannot be had; () if it can. Turning it off is always possible."""
    raw = directive.raw or ""
    if spellings.parse_elevated(raw) == "off" or spellings.is_clear_word(raw):
        return ()
    rules = rules or AgentExecRules()
    return list_elevation_blocks(inbound, enabled=rules.elevated, allow_from=rules.allow_from)


def apply_exec(directive: Directive, record: SessionRecord) -> Said:
    """Ask, set or clear the session's exec options."""
    raw = directive.raw
    if (raw is None and not directive.options) or (raw or "").lower() == "status":
        now = ", ".join(f"{name}={record.extra.get(field) or 'default'}" for name, (field, _) in EXEC.items())
        return f"Current exec defaults: {now}.\n{_exec_options()}", {}, False
    if raw is not None and not spellings.is_clear_word(raw):
        return f'Unrecognized exec option "{raw[:64]}". {_exec_options()}', {}, True
    changes: dict[str, Any] = dict.fromkeys((field for field, _ in EXEC.values()), None) if raw else {}
    for name, value in directive.options:
        field, allowed = EXEC[name]
        if allowed and value.lower() not in allowed:
            return f'Invalid exec {name} "{value[:64]}". Use one of: {", ".join(allowed)}.', {}, True
        changes[field] = value.lower() if allowed else value
    if not directive.options:
        return "Exec defaults reset.", changes, False
    return f"Exec defaults set ({', '.join(f'{n}={v.lower()}' for n, v in directive.options)}).", changes, False


def _exec_options() -> str:
    shown = (f"{name}={'|'.join(allowed) or '<id>'}" for name, (_, allowed) in EXEC.items())
    return f"Options: {', '.join(shown)}, default."
