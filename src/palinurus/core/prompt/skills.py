"""The list of skills: what each is for, and where its instructions are. The bodies are read on demand."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from palinurus.core.prompt.facts import SkillFact, StableFacts
from palinurus.core.prompt.tooling import list_tool_names


def write_skills(facts: StableFacts) -> str:
    """The rules and the list; "" when no skill is eligible."""
    if not facts.skills:
        return ""
    left = (
        f"\n{facts.skills_left} more skills are installed but not listed here for want of room."
        if facts.skills_left
        else ""
    )
    return (
        "## Skills\n"
        "Before you reply, scan the descriptions in <available_skills>.\n"
        "- Exactly one clearly fits: read its SKILL.md at <location> with the `read` tool, then follow it.\n"
        "- Several fit: take the most specific one, read it, follow it.\n"
        "- None clearly fits: read none.\n"
        "Never read more than one before you have chosen. Relative paths in a skill start at its directory.\n"
        f"{write_skill_list(facts.skills)}{left}"
    )


def write_skill_list(found: Iterable[SkillFact]) -> str:
    """The XML block, sorted by name. A skill without description (the compact form) has no such element."""
    lines = ["<available_skills>"]
    for skill in sorted(found, key=lambda s: s.name):
        lines += ["  <skill>", f"    <name>{_text(skill.name)}</name>"]
        if skill.description:
            lines.append(f"    <description>{_text(skill.description)}</description>")
        lines += [f"    <location>{_text(skill.location)}</location>", "  </skill>"]
    return "\n".join([*lines, "</available_skills>"])


def write_skill_workshop(facts: StableFacts) -> str:
    if "skill_workshop" not in list_tool_names(facts):
        return ""
    return (
        "When a way of doing something proved itself and will be needed again, propose it as a skill with "
        "`skill_workshop`; do not write SKILL.md files by hand."
    )


def _text(raw: str) -> str:
    return escape(" ".join(raw.split())).replace("&#x27;", "&apos;")
