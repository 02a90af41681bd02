"""May this run use that tool? Pure: a policy and a question in, a verdict with every reason out.

The verdict holds the tools in the order they are known, and for each the way through the layers, what decided, and
the smallest change of the config that would let it in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from palinurus.core.policy import audience, groups
from palinurus.core.policy.groups import BUILTIN_TOOLS, PolicyTool, normalize_tool_name, suggest_word
from palinurus.core.policy.layers import LAYERS, ToolGate, ToolQuestion, ToolRules, is_opened, list_tool_gates
from palinurus.core.policy.modes import explain_mode

SILENT = "says nothing"
# What the gate asks about, in a sentence; the whole table is docs/security.md.
_FILES = "SOUL, AGENTS, memory and skills after untrusted content; beyond the workspace where nothing holds tools"
ASKS: dict[str, str] = {
    "exec": "outside the sandbox (elevated), for hidden characters, and as tools.exec.ask says; inside it nothing does "
    "(`pal sandbox explain`)",
    **dict.fromkeys(("write", "edit", "apply_patch"), _FILES),
    "web_fetch": "after untrusted content: an address that nobody gave",
    "message": "after untrusted content: messages to others",
    "cron": "a conversation's first job that you did not ask for; after untrusted content every change",
}
OPENAI = ("openai", "openai-codex")
KeyLocator = Callable[[str], str]  # key path -> file:line, "" if it is not written anywhere


class PolicyChange(msgspec.Struct, frozen=True):
    """One thing to do. With a `key` it is a change of the config: set that key to `value`."""

    words: str
    key: str = ""
    value: Any = None


class PolicyStep(msgspec.Struct, frozen=True):
    """One stop of a tool: a layer (counted from 1) or, with 0, a rule that comes after all of them."""

    layer: int
    name: str
    hidden: bool = False
    key: str = ""  # where in the config
    words: str = ""
    changes: tuple[PolicyChange, ...] = ()  # all of them are needed


class PolicyTrace(msgspec.Struct, frozen=True):
    """The way of one tool through the layers."""

    tool: str
    steps: tuple[PolicyStep, ...]

    @property
    def hiding_step(self) -> PolicyStep | None:
        """Who hid it; None if nobody did."""
        return next((step for step in self.steps if step.hidden), None)

    @property
    def changes(self) -> tuple[PolicyChange, ...]:
        """All that must change, each thing once."""
        return tuple({c.key or c.words: c for step in self.steps for c in step.changes}.values())


class ToolVerdict(msgspec.Struct, frozen=True):
    offered: tuple[str, ...]
    traces: dict[str, PolicyTrace]
    notes: tuple[str, ...] = ()  # lists that were passed over, and why

    @property
    def hidden(self) -> dict[str, str]:
        """For each tool that is kept away, who did it."""
        found = ((name, trace.hiding_step) for name, trace in self.traces.items())
        return {name: f"{s.words} (layer {s.layer})" if s.layer else s.words for name, s in found if s is not None}


def decide_tools(rules: ToolRules, question: ToolQuestion, tools: Mapping[str, PolicyTool]) -> ToolVerdict:
    """Which of `tools` the run gets, and why not the others."""
    notes: list[str] = []
    passed: list[ToolGate] = []
    for gate in list_tool_gates(rules, question):
        ignored = gate.allow and not gate.fixed and not any(groups.names_builtin(word, tools) for word in gate.allow)
        if ignored:
            # A list of plugins' names, or of misspelt ones, must not take all tools of ours away.
            notes.append(f"{gate.key}.allow names none of the built-in tools and is passed over")
            gate = msgspec.structs.replace(gate, allow=None)
        passed.append(gate)
    layers = [(number, label, [g for g in passed if g.layer == number]) for number, label in enumerate(LAYERS, 1)]
    traces = {name: _trace(name, tool, rules, question, layers=layers, tools=tools) for name, tool in tools.items()}
    return ToolVerdict(tuple(name for name, t in traces.items() if t.hiding_step is None), traces, tuple(notes))


def _trace(
    name: str,
    tool: PolicyTool,
    rules: ToolRules,
    question: ToolQuestion,
    layers: Sequence[tuple[int, str, list[ToolGate]]],
    tools: Mapping[str, PolicyTool],
) -> PolicyTrace:
    steps: list[PolicyStep] = []
    for number, label, mine in layers:
        steps += [_judged(gate, label, name, tool.origin, tools=tools) for gate in mine] or [
            PolicyStep(number, label, words=SILENT)
        ]
    steps += [step for late in _LATE for step in late(name, tool, rules, question)]
    return PolicyTrace(name, tuple(steps))


def _judged(gate: ToolGate, label: str, name: str, origin: str, tools: Mapping[str, PolicyTool]) -> PolicyStep:
    """The first reason is the one that is told; the changes are those for all of them."""
    reasons: list[tuple[str, str]] = []
    changes: list[PolicyChange] = []
    if word := groups.find_denying_word(gate.deny, name, origin):
        key = gate.deny_key or f"{gate.key}.deny"
        reasons.append((key, _denied(key, word, name)))
        changes += _take_out(gate, key, name, origin, tools=tools) if gate.entry else [_ELSEWHERE]
    if groups.find_denying_word(gate.default_deny, name, origin):
        reasons.append((gate.key, f"{name} is not part of {gate.words}"))
        changes.append(_let_in(gate, name, origin))
    elif gate.allow is not None and not groups.allows_tool(gate.allow, name, origin):
        # A profile and the defaults are not written lists; the place that chose them is named instead.
        key = gate.key if gate.words else f"{gate.key}.allow"
        reasons.append((key, f"{gate.words} does not have it" if gate.words else f"{key} does not name it"))
        changes.append(_let_in(gate, name, origin))
    if reasons:
        return PolicyStep(gate.layer, label, True, *reasons[0], tuple(changes))
    return PolicyStep(gate.layer, label, key=gate.key, words="lets it through")


def _take_out(
    gate: ToolGate, key: str, name: str, origin: str, tools: Mapping[str, PolicyTool]
) -> Iterator[PolicyChange]:
    """Out of the list, and out of the one that counts in its place once it is empty."""
    left = groups.remove_tool(gate.deny, name, origin, tools)
    yield PolicyChange(f"take {name} out of {key}", key, list(left))
    if not left and groups.find_denying_word(gate.behind, name, origin):
        value = list(groups.remove_tool(gate.behind, name, origin, tools))
        yield PolicyChange(f"take {name} out of {gate.behind_key}", gate.behind_key, value)


_ELSEWHERE = PolicyChange("allow it in the session that started this one")


def _denied(key: str, word: str, name: str) -> str:
    return f"{key} names it" if groups.normalize_tool_name(word) == name else f"{key} has {word}, which takes it away"


def _let_in(gate: ToolGate, name: str, origin: str) -> PolicyChange:
    if not gate.entry:
        return _ELSEWHERE
    if gate.entry.endswith(".profile"):
        larger = groups.find_smallest_profile(name, origin)
        return PolicyChange(f"set {gate.entry} to {larger}", gate.entry, larger)
    return PolicyChange(f"add {name} to {gate.entry}", gate.entry, [*gate.written, name])


# Rules that are no lists: they come after the layers.


def _owner(name: str, tool: PolicyTool, rules: ToolRules, question: ToolQuestion) -> Iterator[PolicyStep]:
    if tool.owner or name in groups.OWNER_TOOLS:
        changes = () if question.asker.owner else (PolicyChange("ask as the owner (commands.ownerAllowFrom)"),)
        yield PolicyStep(0, "owner", bool(changes), "", words="it is for the owner only", changes=changes)


def _patch(name: str, tool: PolicyTool, rules: ToolRules, question: ToolQuestion) -> Iterator[PolicyStep]:
    if name != "apply_patch" or tool.origin:
        return
    patch = rules.patches.get(question.agent, rules.patch)
    key = patch.key
    if not patch.enabled:
        change = PolicyChange(f"set {key}.enabled to true", f"{key}.enabled", True)
        yield PolicyStep(0, "apply_patch", True, f"{key}.enabled", words=f"{key}.enabled is false", changes=(change,))
    ref = f"{question.providers[0] if question.providers else ''}/{question.model}"
    if not may_patch(patch.models, question.providers, question.model):
        why = "is for models of OpenAI" if patch.models is None else "does not name this model"
        change = PolicyChange(f"add {ref} to {key}.allowModels", f"{key}.allowModels", [*(patch.models or ()), ref])
        yield PolicyStep(
            0, "apply_patch", True, f"{key}.allowModels", words=f"{key}.allowModels {why}", changes=(change,)
        )


def may_patch(models: tuple[str, ...] | None, providers: tuple[str, ...], model: str) -> bool:
    """May this model patch? Names are `provider/model` or bare model ids; without a list, OpenAI's may."""
    if not models:
        return any(provider in OPENAI for provider in providers) or model.lower().startswith(("gpt-", "openai/gpt-"))
    names = {model.lower(), *(f"{provider}/{model}".lower() for provider in providers)}
    return any(entry.strip().lower() in names or entry.strip() == "*" for entry in models)


def _model(name: str, tool: PolicyTool, rules: ToolRules, question: ToolQuestion) -> Iterator[PolicyStep]:
    other = PolicyChange("use another model")
    if not question.callable:
        yield PolicyStep(0, "model", True, "", words="the model cannot call tools", changes=(other,))
    if question.narrow is not None:
        hidden = name not in question.narrow
        ref = f"{question.providers[0] if question.providers else ''}/{question.model}"
        key = rules.narrowed.get(ref, "")
        change = PolicyChange(f"add {name} to {key}", key, [*question.narrow, name]) if key else other
        words = "the model is given only some tools (compat.toolNames)"
        yield PolicyStep(0, "model", hidden, key, words=words, changes=(change,) if hidden else ())


def _session(name: str, tool: PolicyTool, rules: ToolRules, question: ToolQuestion) -> Iterator[PolicyStep]:
    if question.exec_denied and name == "exec":
        yield PolicyStep(
            0,
            "session",
            True,
            "",
            words="/exec security=deny was said here",
            changes=(PolicyChange("say /exec security=full"),),
        )


def _idle(name: str, tool: PolicyTool, rules: ToolRules, question: ToolQuestion) -> Iterator[PolicyStep]:
    if tool.idle:
        yield PolicyStep(0, "tool", words=f"can do nothing yet: {tool.idle}")
    if tool.missing:
        yield PolicyStep(0, "tool", True, "", words=tool.missing)


def _memory(name: str, tool: PolicyTool, rules: ToolRules, question: ToolQuestion) -> Iterator[PolicyStep]:
    if name in audience.MEMORY_TOOLS:
        change = PolicyChange(f"ask in the owner's own chat, or name this person or group in {audience.KEY}")
        words = "the owner's memory is for the owner's own sessions"
        changes = (change,) if question.shared else ()
        yield PolicyStep(0, "memory", question.shared, audience.KEY, words=words, changes=changes)


def _outsider(name: str, tool: PolicyTool, rules: ToolRules, question: ToolQuestion) -> Iterator[PolicyStep]:
    if question.outsider and name in audience.OUTSIDER_DENY and not tool.origin:
        hidden = not is_opened(rules, question, name)
        change = PolicyChange(f"name {question.outsider} in {audience.TRUST}", audience.TRUST, [question.outsider])
        words = "people who are not the owner do not use the machine"
        yield PolicyStep(0, "people", hidden, audience.TRUST, words=words, changes=(change,) if hidden else ())


def _mode(name: str, tool: PolicyTool, rules: ToolRules, question: ToolQuestion) -> Iterator[PolicyStep]:
    if words := explain_mode(question.mode, name, tool.effect, tool.origin):
        yield PolicyStep(0, "mode", key="agents.defaults.permissionMode", words=words)


_LATE: tuple[Callable[[str, PolicyTool, ToolRules, ToolQuestion], Iterator[PolicyStep]], ...] = (
    _owner,
    _patch,
    _model,
    _session,
    _idle,
    _memory,
    _outsider,
    _mode,
)


# --- a verdict in words: is the tool there, who decided, where that is written, what would change it -----------------


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
    told = [step for step in trace.steps if step.words != SILENT]
    silent = len(trace.steps) - len(told)
    lines += [_line(step, where) for step in told]
    lines += [f"  {silent} of {len(LAYERS)} layers say nothing"] if silent else []
    lines += [f"  asks: {ASKS[tool]}"] if found is None and tool in ASKS else []
    lines += ["to allow it:", *(f"  {_command(change)}" for change in trace.changes)] if trace.changes else []
    return lines + [f"note: {note}" for note in verdict.notes]


def explain_unknown_tool(tool: str, tools: Mapping[str, Any]) -> str:
    """What is said about a name that no tool of this program has."""
    if tool in BUILTIN_TOOLS:
        return f"{tool} is a name that policies know, but there is no such tool in this program yet."
    near = suggest_word(tool, tools)
    return f"There is no tool {tool[:64]}." + (f" Did you mean {near}?" if near else "")


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
