"""Tools and skills in the prompt: the tools, how to use them, how to wait for long work, when to hand work to
sub-agents; what each skill is for and where its instructions are, which are read on demand.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from palinurus.core.prompt.facts import SkillFact, StableFacts, ToolFact, has_tool, list_tool_names


def write_skills(facts: StableFacts) -> str:
    """The rules and the list; "" when no skill is eligible."""
    how = next((tool for tool in ("read", "exec") if has_tool(facts, tool)), "")
    if not facts.skills or not how:
        return ""
    left = f"\n{facts.skills_left} more skills are installed but not listed here for want of room."
    left = left if facts.skills_left else ""
    return (
        "## Skills\n"
        "Before you reply, scan the descriptions in <available_skills>.\n"
        f"- Exactly one clearly fits: read its SKILL.md at <location> with the `{how}` tool, then follow it.\n"
        "- Several fit: take the most specific one, read it, follow it.\n"
        "- None clearly fits: read none.\n"
        "Never read more than one before you have chosen. Relative paths in a skill start at its directory.\n"
        f"{write_skill_list(facts.skills)}{left}"
    )


def write_skill_list(found: Iterable[SkillFact]) -> str:
    """The XML block, sorted by name."""
    entries = map(write_skill_entry, sorted(found, key=lambda s: s.name))
    return "\n".join(("<available_skills>", *entries, "</available_skills>"))


def write_skill_entry(skill: SkillFact) -> str:
    """One skill of the block. Without a description (the compact form) it has no such element."""
    said = f"    <description>{_text(skill.description)}</description>\n" if skill.description else ""
    name, location = _text(skill.name), _text(skill.location)
    return f"  <skill>\n    <name>{name}</name>\n{said}    <location>{location}</location>\n  </skill>"


def write_skill_workshop(facts: StableFacts) -> str:
    if not has_tool(facts, "skill_workshop"):
        return ""
    return (
        "When a way of doing something proved itself and will be needed again, propose it as a skill with "
        "`skill_workshop`; do not write SKILL.md files by hand."
    )


def _text(raw: str) -> str:
    return escape(" ".join(raw.split())).replace("&#x27;", "&apos;")


# First the tools everybody knows, in this order; then the others by name.
TOOL_ORDER: tuple[str, ...] = (
    "read", "write", "edit", "apply_patch", "grep", "find", "ls", "exec", "process", "web_search", "web_fetch",
    "browser", "canvas", "nodes", "cron", "message", "gateway", "agents_list", "sessions_list", "sessions_history",
    "sessions_send", "sessions_spawn", "sessions_yield", "subagents", "session_status", "skill_workshop", "image",
    "image_generate",
)  # fmt: skip
_WAKE = "(wake)"  # no tool: a background command wakes the agent when it ends
_RANK = {name: rank for rank, name in enumerate(TOOL_ORDER)}

# Tools that must all be there -> the line. Lines about waiting come first: they are broken most often.
_GUIDANCE: dict[tuple[str, ...], str] = {
    ("cron",): "For anything later (a reminder, checking back, recurring work) make a `cron` job.",
    ("cron", "exec", "process"): (
        "Do not wait with sleep loops in `exec`, with `yieldMs` delays, or by asking `process` again and again."
    ),
    ("exec", "process"): (
        "`exec` is for commands that start now; one that takes long goes on in the background. Use `process` to read "
        "its log or status, to give it input, or to step in."
    ),
    ("exec", _WAKE): (
        "The end of a background command wakes you if it printed something or failed: start it once and rely on that "
        "instead of looking after it."
    ),
    ("sessions_spawn",): (
        "A larger or separable task goes to a sub-agent with `sessions_spawn`. Its result is pushed to you when it is "
        "done; you need not ask for it."
    ),
    ("update_plan",): (
        "`update_plan` is for work of several real steps only. Keep exactly one step in_progress, and do not repeat "
        "the whole plan in your text after updating it."
    ),
}


def write_tooling(facts: StableFacts) -> str:
    """Which tools there are, and the rules that depend on which there are."""
    if not facts.tools:
        return (
            "## Tooling\nNo tool list was handed over for this run. Use only tools that are defined for you as "
            "structured calls; if there are none, answer from what you know and say what you could not check."
        )
    lines = [
        f"- {tool.name}: {tool.summary}" if tool.summary else f"- {tool.name}" for tool in order_tools(facts.tools)
    ]
    return "\n".join(
        (
            "## Tooling",
            "The structured tool definitions decide which tools exist, what they are called and what they take; this "
            "list is a reminder. Names are case-sensitive: call them exactly as written.",
            *lines,
            "Notes about tools in workspace files say how to use a tool; they do not make one available.",
            *_rules(facts),
        )
    )


def order_tools(tools: Iterable[ToolFact]) -> list[ToolFact]:
    """Known tools in their order, the others by name; of names that differ only in case, the first."""
    first: dict[str, ToolFact] = {}
    for tool in tools:
        if tool.name.strip():
            first.setdefault(tool.name.lower(), tool)
    return [first[low] for low in sorted(first, key=lambda low: (_RANK.get(low, len(TOOL_ORDER)), low))]


def _rules(facts: StableFacts) -> list[str]:
    have = list_tool_names(facts) | ({_WAKE} if facts.wake else set())
    rules = [line for needed, line in _GUIDANCE.items() if have.issuperset(needed)]
    listing = [name for name in ("subagents", "sessions_list") if name in have]
    if listing:
        named = " or ".join(f"`{name}`" for name in listing)
        rules.append(f"Do not call {named} in a loop to wait for something; look only when asked, or to step in.")
    return rules


def write_delegation(facts: StableFacts) -> str:
    """The strong form of the nudge towards sub-agents. Words only: policy decides whether the tool exists."""
    if facts.knobs.delegation != "prefer" or not has_tool(facts, "sessions_spawn"):
        return ""
    return (
        "## Sub-Agent Delegation\n"
        "You are the coordinator: stay free to answer. Reply yourself when a direct answer is enough; give everything "
        "more involved (several tool calls, research, edits, anything slow) to a sub-agent with `sessions_spawn`, with "
        "a task that can be understood without this conversation. Tell the person what you started, and report when "
        "the result is pushed to you."
    )
