"""Which skills the prompt lists, within its budget, and what their slash commands are called. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from palinurus.core.prompt.facts import SkillFact
from palinurus.core.prompt.skills import write_skill_list
from palinurus.core.skills.skill import Skill

COMMAND = 32  # characters of a command's name


class SkillOffer(NamedTuple):
    """The skills to list, and how many were left out for want of room."""

    skills: tuple[SkillFact, ...]
    left: int = 0


class SkillCommand(NamedTuple):
    """A slash command that starts a skill."""

    name: str
    skill: str
    description: str
    path: str
    dispatch: str = ""  # the tool it goes to directly


def offer_skills(skills: Iterable[Skill], home: str, chars: int, count: int) -> SkillOffer:
    """The skills the model may start, by name. Over the budget they lose their descriptions, then the last go."""
    facts = [
        SkillFact(skill.name, skill.description, shorten_home(skill.path, home))
        for skill in sorted(skills, key=lambda s: s.name)
        if skill.model_invocable
    ]
    full = facts[:count]
    if _fits(full, chars) == len(full):
        return SkillOffer(tuple(full), len(facts) - len(full))
    short = [SkillFact(fact.name, "", fact.location) for fact in full]
    kept = short[: _fits(short, chars)]
    return SkillOffer(tuple(kept), len(facts) - len(kept))


def _fits(facts: list[SkillFact], chars: int) -> int:
    """How many of them, from the front, have room."""
    frame = len(write_skill_list(()))
    for position, fact in enumerate(facts):
        frame += len(write_skill_list((fact,))) - len(write_skill_list(()))
        if frame > chars:
            return position
    return len(facts)


def shorten_home(path: str, home: str) -> str:
    """The path with the user's home as ~."""
    return f"~{path[len(home) :]}" if home not in ("", "/") and path.startswith(f"{home}/") else path


def make_skill_commands(skills: Iterable[Skill], taken: Iterable[str] = ()) -> tuple[SkillCommand, ...]:
    """The commands people may type. A name that is taken gets _2, _3 …"""
    used = {name.lower() for name in taken}
    made = []
    for skill in sorted(skills, key=lambda s: s.name):
        if skill.user_invocable:
            name = _free(_word(skill.name), used)
            used.add(name)
            made.append(SkillCommand(name, skill.name, skill.description, skill.path, skill.dispatch))
    return tuple(made)


def _word(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:COMMAND].rstrip("_") or "skill"


def _free(word: str, used: set[str]) -> str:
    name, number = word, 1
    while name in used:
        number += 1
        name = f"{word[: COMMAND - len(f'_{number}')]}_{number}"
    return name
