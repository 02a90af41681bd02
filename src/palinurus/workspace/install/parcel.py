"""A skill that is about to be installed: its files, its hash, what it asks for, and how it differs from the one that
is there. Values only.
"""

from __future__ import annotations

import hashlib
import os
from typing import NamedTuple

from palinurus.core.skills.danger import SkillFile, SkillFinding, find_dangers
from palinurus.core.skills.skill import SKILL_FILE, BrokenSkill, Skill, parse_skill
from palinurus.errors import BadRequest, NotFound


class SkillPackage(NamedTuple):
    skill: Skill
    parts: tuple[SkillFile, ...]  # names from the skill's own folder
    digest: str
    findings: tuple[SkillFinding, ...]


class SkillPackageChange(NamedTuple):
    """How a parcel differs from what is installed."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()  # what it asks for now and did not before


def choose_package(parts: tuple[SkillFile, ...], origin: str, wanted: str = "", limit: int = 256_000) -> SkillPackage:
    """The one skill among these files, or the one called `wanted`. Raises BadRequest, NotFound."""
    folders = sorted(
        {
            part.name[: -len(SKILL_FILE)]
            for part in parts
            if part.name == SKILL_FILE or part.name.endswith(f"/{SKILL_FILE}")
        }
    )
    # A skill inside a skill belongs to the outer one.
    outer = [f for f in folders if not any(f != other and f.startswith(other) for other in folders)]
    made = [_made(prefix, parts, origin, limit) for prefix in outer]
    good = [one for one in made if isinstance(one, SkillPackage)]
    if wanted:
        good = [one for one in good if one.skill.name == wanted]
    if len(good) == 1:
        return good[0]
    if len(good) > 1:
        names = ", ".join(one.skill.name for one in good[:20])
        raise BadRequest(f"there are {len(good)} skills in it: {names}", fix="choose one with --skill NAME")
    if wanted:
        raise NotFound(f"there is no skill {wanted!r} in it")
    reasons = [one.reason for one in made if isinstance(one, BrokenSkill)]
    raise BadRequest(f"its {SKILL_FILE} cannot be used: {reasons[0]}" if reasons else f"there is no {SKILL_FILE} in it")


def _made(prefix: str, parts: tuple[SkillFile, ...], origin: str, limit: int) -> SkillPackage | BrokenSkill:
    own = tuple(part._replace(name=part.name[len(prefix) :]) for part in parts if part.name.startswith(prefix))
    head = next(part for part in own if part.name == SKILL_FILE)
    folder = os.path.basename(prefix.rstrip("/")) or os.path.splitext(os.path.basename(origin.rstrip("/")))[0]
    if len(head.data) > limit:
        return BrokenSkill(folder, prefix + SKILL_FILE, origin, f"{SKILL_FILE} is larger than {limit} bytes")
    found = parse_skill(head.data.decode("utf-8", "replace"), prefix + SKILL_FILE, folder, "installed")
    return found if isinstance(found, BrokenSkill) else SkillPackage(found, own, hash_parts(own), find_dangers(own))


def hash_parts(parts: tuple[SkillFile, ...]) -> str:
    """One hash over names, contents and which files can be started."""
    whole = hashlib.sha256()
    for part in sorted(parts, key=lambda p: p.name):
        inner = hashlib.sha256(part.data).hexdigest()
        whole.update(f"{part.name}\x00{int(part.executable)}\x00{inner}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def list_demands(wanted: Skill) -> tuple[str, ...]:
    """What a skill asks for, in words."""
    needs = wanted.requires
    rows = (
        ("programs", needs.bins),
        ("one of the programs", needs.any_bins),
        ("variables", (*needs.env, *((wanted.primary_env,) if wanted.primary_env not in ("", *needs.env) else ()))),
        ("config", needs.config),
        ("tools", wanted.tools),
        ("systems", wanted.os),
        ("a command that goes straight to the tool", (wanted.dispatch,) if wanted.dispatch else ()),
        ("would have you install", wanted.install),
    )
    made = [f"{what}: {', '.join(names)}" for what, names in rows if names]
    return (*made, "to be listed whatever it lacks (always)") if wanted.always else tuple(made)


def compare_packages(old: SkillPackage, new: SkillPackage) -> SkillPackageChange:
    """From the installed one to the new one."""
    before = {part.name: part for part in old.parts}
    after = {part.name: part for part in new.parts}
    return SkillPackageChange(
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(before.keys() - after.keys())),
        tuple(sorted(name for name in after.keys() & before.keys() if after[name] != before[name])),
        tuple(line for line in list_demands(new.skill) if line not in list_demands(old.skill)),
    )
