"""Which skills may be used here (their own conditions, the config's switches, the agent's list), which of them the
prompt lists within its budget, and what their slash commands are called. Pure: the world is handed in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import NamedTuple

import msgspec

from palinurus.core.prompt.capabilities import write_skill_entry, write_skill_list
from palinurus.core.prompt.facts import SkillFact
from palinurus.core.skills.skill import Skill

COMMAND = 32  # characters of a command's name
BUNDLED_SOURCE = "bundled"  # the source of skills that came with the program


class SkillOverride(msgspec.Struct, frozen=True):
    """What skills.entries says of one skill, without any value of it."""

    enabled: bool = True
    env: frozenset[str] = frozenset()  # names it sets
    keyed: bool = False  # an apiKey is there


class SkillEnvironment(msgspec.Struct, frozen=True):
    """What is asked about the machine and the config."""

    os: str  # as sys.platform has it
    has: Callable[[str], bool]  # a program on the PATH
    env: Callable[[str], bool]  # a variable that is set
    config: Callable[[str], bool]  # a key path that is set to something
    entries: Mapping[str, SkillOverride] = {}
    bundled: frozenset[str] | None = None  # skills.allowBundled; None = all
    allowed: frozenset[str] | None = None  # the agent's; None = all


def list_unmet_needs(skill: Skill, world: SkillEnvironment) -> tuple[str, ...]:
    """Why it is not eligible, each reason in words; () if it is."""
    entry = world.entries.get(skill.key, SkillOverride())
    if not entry.enabled:
        return (f"switched off (skills.entries.{skill.key}.enabled)",)
    names = {skill.name, skill.key}
    if skill.source == BUNDLED_SOURCE and world.bundled is not None and not names & world.bundled:
        return ("not in skills.allowBundled",)
    if world.allowed is not None and skill.name not in world.allowed:
        return ("not in the agent's list of skills",)
    if skill.os and world.os not in skill.os:
        return (f"for {', '.join(skill.os)} only",)
    return () if skill.always else _lacking(skill, world, entry)


def _lacking(skill: Skill, world: SkillEnvironment, entry: SkillOverride) -> tuple[str, ...]:
    needs = skill.requires
    why = [f"no program {name}" for name in needs.bins if not world.has(name)]
    if needs.any_bins and not any(world.has(name) for name in needs.any_bins):
        why.append(f"none of the programs {', '.join(needs.any_bins)}")
    for name in needs.env:
        given = name in entry.env or (entry.keyed and name == skill.primary_env)
        if not given and not world.env(name):
            why.append(f"{name} is not set")
    why += [f"config {path} is not set" for path in needs.config if not world.config(path)]
    return tuple(why)


class SkillOffer(NamedTuple):
    """The skills to list, and how many were left out for want of room."""

    skills: tuple[SkillFact, ...]
    left: int = 0


class SkillCommand(msgspec.Struct, frozen=True):
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
    sizes = accumulate(len(write_skill_entry(fact)) + 1 for fact in facts)
    return sum(size <= chars - len(write_skill_list(())) for size in sizes)


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
            made.append(SkillCommand(name, skill.name, skill.description, skill.path, dispatch=skill.dispatch))
    return tuple(made)


def _word(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:COMMAND].rstrip("_") or "skill"


def _free(word: str, used: set[str]) -> str:
    name, number = word, 1
    while name in used:
        number += 1
        name = f"{word[: COMMAND - len(f'_{number}')]}_{number}"
    return name
