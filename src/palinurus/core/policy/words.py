"""A verdict in words, for people: is the tool there, who decided, where that is written, what would change it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from palinurus.core.policy.decide import PolicyChange, PolicyStep, PolicyTrace, ToolVerdict
from palinurus.core.policy.groups import BUILTIN_TOOLS, normalize_tool_name, suggest_word

KeyLocator = Callable[[str], str]  # key path -> file:line, "" if it is not written anywhere


def describe_tool_verdict(name: str, verdict: ToolVerdict, where: KeyLocator) -> dict[str, Any]:
    """Everything about one tool, for programs. `known` False: there is no such tool in this program."""
    tool = normalize_tool_name(name)
    trace = verdict.traces.get(tool)
    if trace is None:
        return {"tool": tool, "known": False, "available": False, "reason": explain_unknown_tool(tool, verdict.traces)}
    found = trace.hiding_step
    return {
        "tool": tool,
        "known": True,
        "available": found is None,
        "layer": found.layer if found else None,
        "reason": found.words if found else "",
        "key": found.key if found else "",
        "source": where(found.key) if found else "",
        "steps": [_step(step, where) for step in trace.steps],
        "changes": [{"words": c.words, "key": c.key, "value": c.value} for c in trace.changes],
        "notes": list(verdict.notes),
    }


def explain_tool_verdict(name: str, verdict: ToolVerdict, where: KeyLocator) -> list[str]:
    """The lines that `pal policy explain` and `/tools why` say."""
    tool = normalize_tool_name(name)
    trace = verdict.traces.get(tool)
    if trace is None:
        return [explain_unknown_tool(tool, verdict.traces)]
    found = trace.hiding_step
    lines = [f"{tool} is offered." if found is None else f"{tool} is not offered: {found.words}{_at(found, where)}."]
    lines += [_line(step, where) for step in trace.steps]
    lines += _changes(trace)
    return lines + [f"note: {note}" for note in verdict.notes]


def explain_unknown_tool(tool: str, tools: Mapping[str, Any]) -> str:
    """What is said about a name that no tool of this program has."""
    if tool in BUILTIN_TOOLS:
        return f"{tool} is a name that policies know, but there is no such tool in this program yet."
    near = suggest_word(tool, tools)
    return f"There is no tool {tool[:64]}." + (f" Did you mean {near}?" if near else "")


def _changes(trace: PolicyTrace) -> list[str]:
    changes = trace.changes
    if not changes:
        return []
    return ["to allow it:", *(f"  {_command(change)}" for change in changes)]


def _command(change: PolicyChange) -> str:
    if not change.key:
        return change.words
    value = change.value if isinstance(change.value, str) else json.dumps(change.value, ensure_ascii=False)
    return f"{change.words}: pal config set {_quoted(change.key)} {_quoted(value)}"


def _quoted(text: str) -> str:
    plain = text.replace("'", "'\\''")
    return f"'{plain}'" if any(c in text for c in " []{}\"'*$\\") else text


def _line(step: PolicyStep, where: KeyLocator) -> str:
    number = f"{step.layer}" if step.layer else "+"
    return f"  {number} {step.name}: {'hidden, ' if step.hidden else ''}{step.words}{_at(step, where)}"


def _at(step: PolicyStep, where: KeyLocator) -> str:
    found = where(step.key) if step.key else ""
    return f" ({found})" if found else ""


def _step(step: PolicyStep, where: KeyLocator) -> dict[str, Any]:
    return {
        "layer": step.layer,
        "name": step.name,
        "hidden": step.hidden,
        "key": step.key,
        "source": where(step.key) if step.key else "",
        "words": step.words,
    }
