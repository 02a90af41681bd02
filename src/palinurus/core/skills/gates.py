"""May a skill be used here? Its own conditions, the config's switches, the agent's allowlist. Pure: the world is
handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from palinurus.core.skills.skill import Skill

BUNDLED_SOURCE = "bundled"  # the source of skills that came with the program


class SkillOverride(NamedTuple):
    """What skills.entries says of one skill, without any value of it."""

    enabled: bool = True
    env: frozenset[str] = frozenset()  # names it sets
    keyed: bool = False  # an apiKey is there


class SkillEnvironment(NamedTuple):
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
