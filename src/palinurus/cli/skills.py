"""`pal skills`: what skills there are and why one is not used; installing and removing. Asks before it changes
anything, and runs nothing of a skill.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from palinurus.cli import main
from palinurus.cli.args import (
    JSON,
    Verb,
    ask_person,
    find_agent,
    format_rows,
    load_settings,
    make_arg,
    parse_verb,
    to_json,
)
from palinurus.cli.render import strip_controls
from palinurus.clock import SystemClock
from palinurus.config.load import LoadedConfig
from palinurus.core.skills.danger import is_grave
from palinurus.core.skills.needs import suggest_install, tell_permissions
from palinurus.core.skills.offer import make_skill_commands, shorten_home
from palinurus.core.skills.skill import BrokenSkill, Skill
from palinurus.errors import BadRequest, NotFound
from palinurus.services.skillstore import FINDINGS
from palinurus.tools.commands.environ import build_search_path
from palinurus.workspace.discovery import locate_installed_skills
from palinurus.workspace.install.packages import (
    InstalledSkills,
    SkillPackage,
    SkillPackageChange,
    SkillPin,
    choose_package,
    compare_packages,
    list_demands,
)
from palinurus.workspace.install.registry import parse_slug
from palinurus.workspace.install.source import SkillDownload, fetch_source
from palinurus.workspace.sources import PromptSources, SkillMachine, SkillStock


def run_skills(argv: list[str]) -> int:
    """0; for `check` 1 if something is wrong. Raises BadRequest, NotFound, ConfigError, StateError."""
    about = "Skills: folders of instructions the agent reads when it needs them."
    asked = parse_verb("skills", about, VERBS, argv, default="list")
    loaded = load_settings(os.environ)
    return int(asked.run(asked, loaded, InstalledSkills(locate_installed_skills(loaded.settings.home))))


def _stock(asked: argparse.Namespace, loaded: LoadedConfig) -> SkillStock:
    agent = find_agent(loaded.settings, asked.agent)
    return PromptSources(loaded.settings, os.environ, loaded.raw, path=build_search_path()).stock(agent)


def _list(asked: argparse.Namespace, loaded: LoadedConfig, place: InstalledSkills) -> int:
    stock = _stock(asked, loaded)
    print(to_json(describe_skills(stock, place)) if asked.json else format_skills(stock))
    return 0


def _check(asked: argparse.Namespace, loaded: LoadedConfig, place: InstalledSkills) -> int:
    stock = _stock(asked, loaded)
    print(to_json(describe_skills(stock, place)) if asked.json else format_skill_problems(stock, place))
    return 1 if stock.found.broken or place.drift() else 0


def format_skills(stock: SkillStock) -> str:
    """A line for each skill; those that cannot be used with the reason."""
    rows = [(skill, "") for skill in stock.ready]
    rows += [(skill, "; ".join(why)) for skill, why in stock.waiting]
    width = max((len(skill.name) for skill, _ in rows), default=0)
    lines = []
    for skill, why in sorted(rows, key=lambda row: row[0].name):
        state = f"not used: {why}" if why else skill.description
        lines.append(strip_controls(f"{'-' if why else '+'} {skill.name:<{width}}  {skill.source:<10}  {state}"))
    lines += [_broken(one) for one in stock.found.broken]
    left = f", {stock.offer.left} of them not listed for want of room" if stock.offer.left else ""
    lines.append(f"{len(stock.ready)} of {len(rows)} can be used{left}")
    return "\n".join(lines)


def _broken(one: BrokenSkill) -> str:
    return strip_controls(f"! {one.name}  {one.source}  invalid: {one.reason} ({one.path})").replace("\n", " ")


def format_skill_problems(stock: SkillStock, place: InstalledSkills) -> str:
    """What is wrong, a line each, and the sums."""
    drift = place.drift()
    lines = [_broken(one) for one in stock.found.broken]
    lines += [strip_controls(f"! {name}  {what}") for name, what in drift.items()]
    lines += [
        strip_controls(f"? {s.name}  {w}") for s in (*stock.ready, *(s for s, _ in stock.waiting)) for w in s.warnings
    ]
    lines += [
        strip_controls(f"? {s.name}  {s.path} is not used: another of that name goes before")
        for s in stock.found.shadowed
    ]
    lines += [strip_controls(f"- {skill.name}  {'; '.join(why)}") for skill, why in stock.waiting]
    lines.append(
        f"{len(stock.ready)} can be used, {len(stock.waiting)} lack something, {len(stock.found.broken)} are invalid, "
        f"{len(drift)} are not as installed"
    )
    return "\n".join(lines)


def describe_skills(stock: SkillStock, place: InstalledSkills) -> dict[str, Any]:
    """All of it, for programs."""
    rows = [(skill, ()) for skill in stock.ready] + list(stock.waiting)
    return {
        "skills": [{**msgspec.to_builtins(skill), "eligible": not why, "reasons": list(why)} for skill, why in rows],
        "invalid": [msgspec.structs.asdict(one) for one in stock.found.broken],
        "shadowed": [{"name": one.name, "path": one.path, "source": one.source} for one in stock.found.shadowed],
        "drift": place.drift(),
        "listed": len(stock.offer.skills),
        "leftOut": stock.offer.left,
    }


def _info(asked: argparse.Namespace, loaded: LoadedConfig, place: InstalledSkills) -> int:
    stock = _stock(asked, loaded)
    reasons: dict[str, tuple[Skill, tuple[str, ...]]] = {s.name: (s, ()) for s in stock.ready}
    reasons |= {skill.name: (skill, why) for skill, why in stock.waiting}
    if asked.name not in reasons:
        broken = next((one for one in stock.found.broken if one.name == asked.name), None)
        if broken is None:
            raise NotFound(f"there is no skill {asked.name!r}", fix="`pal skills list`")
        print(_broken(broken))
        return 1
    skill, why = reasons[asked.name]
    pin = place.pins().get(skill.name) if skill.source == "installed" else None
    if asked.json:
        told = {**msgspec.to_builtins(skill), "eligible": not why, "reasons": why, "pin": msgspec.to_builtins(pin)}
        print(to_json(told))
        return 0
    command = next((c.name for c in make_skill_commands(stock.ready) if c.skill == skill.name), "")
    rows = [
        ("name", skill.name),
        ("description", skill.description),
        ("file", shorten_home(skill.path, os.path.expanduser("~"))),
        ("from", skill.source),
        ("homepage", skill.homepage),
        ("usable", "; ".join(why) if why else "yes"),
        ("command", f"/{command}" if command else ""),
        *(("asks for", line) for line in list_demands(skill)),
        *(("odd", line) for line in skill.warnings),
        ("pinned", f"{pin.sha256[:16]} from {pin.origin} {pin.commit[:12]}".rstrip() if pin else ""),
        ("changed", place.drift().get(skill.name, "") if pin else ""),
    ]
    print(strip_controls(format_rows(rows, 12)))
    return 0


# install, remove


def _install(asked: argparse.Namespace, loaded: LoadedConfig, place: InstalledSkills) -> int:
    local = os.path.exists(asked.source) or parse_slug(asked.source) is None
    got = fetch_source(asked.source, os.environ) if local else _call_store("download", asked.source, loaded)
    return _put(asked, loaded, place, got)


def _put(asked: argparse.Namespace, loaded: LoadedConfig, place: InstalledSkills, got: SkillDownload) -> int:
    """Show it, ask, install it."""
    new = choose_package(got.parts, got.origin, asked.skill, loaded.settings.skills.file_bytes)
    old = place.read_package(new.skill.name)
    print(summarize_install(new, old, got, place.pins()))
    pinned = place.pins().get(new.skill.name)
    if pinned is not None and old is not None and old.digest == new.digest == pinned.sha256:
        print("it is installed already")
        return 0
    if not _agreed(asked.yes, "install it?"):
        return 1
    where = place.put(new, SkillPin(new.digest, got.origin, SystemClock().now(), got.commit))
    print(f"installed  {where}")
    _say_lacking(new.skill, loaded)
    return 0


def _say_lacking(skill: Skill, loaded: LoadedConfig) -> None:
    """What it lacks here, with the line that gets it."""
    world = SkillMachine(os.environ, build_search_path(), loaded.raw, loaded.settings.skills)
    for name in (*skill.requires.bins, *skill.requires.any_bins):
        if not world.has(name):
            line = suggest_install(skill, name, world.has)
            print(strip_controls(f"it lacks   {name}" + (f": {line}" if line else "")))


def _update(asked: argparse.Namespace, loaded: LoadedConfig, place: InstalledSkills) -> int:
    """Those that are named, or all. 1 if a yes was missing."""
    pins = place.pins()
    missing = [name for name in asked.names if name not in pins]
    if missing:
        raise NotFound(f"{', '.join(missing)}: not installed by `pal skills`", fix="`pal skills list`")
    if not pins:
        print("no skill was installed by `pal skills`, so there is nothing to update")
    code = 0
    for name in asked.names or sorted(pins):
        asked.skill = name
        code = max(code, _put(asked, loaded, place, _call_store("again", pins[name], loaded)))
    return code


def _accept(asked: argparse.Namespace, loaded: LoadedConfig, place: InstalledSkills) -> int:
    """A person has looked at what was changed."""
    if asked.name not in place.pins():
        raise NotFound(f"no skill {asked.name!r} was installed by `pal skills`", fix="`pal skills list`")
    found = place.read_package(asked.name)
    if found is not None:
        for one in found.findings[:FINDINGS]:
            print(strip_controls(f"{'LOOK' if is_grave(one) else 'note':<12} {one}"))
    if not _agreed(asked.yes, f"take {strip_controls(asked.name)} as it is now?"):
        return 1
    print(f"pinned  {place.accept(asked.name, SystemClock().now())[:16]}")
    return 0


def _call_store(name: str, *given: Any) -> Any:
    """What asks servers elsewhere is loaded for the verbs that do."""
    return main.load_part(main.PARTS[f"skill-{name}"])(*given)  # type: ignore[operator]


def _publish(asked: argparse.Namespace, loaded: LoadedConfig, place: InstalledSkills) -> int:
    asked.agree = _agreed
    return int(_call_store("publish", asked, loaded, place))


def summarize_install(
    new: SkillPackage, old: SkillPackage | None, got: SkillDownload, pins: Mapping[str, SkillPin]
) -> str:
    """What is about to be installed, in words for the person who decides."""
    size = sum(len(part.data) for part in new.parts)
    lines = [
        f"skill        {new.skill.name}",
        f"description  {new.skill.description}",
        f"from         {got.origin}" + (f" at {got.commit[:12]}" if got.commit else ""),
        f"files        {len(new.parts)}, {size} bytes, sha256 {new.digest[:16]}",
        *(f"it           {line}" for line in tell_permissions(new.skill, frozenset(f.kind for f in new.findings))),
        *(f"asks for     {line}" for line in list_demands(new.skill)),
        *(f"odd          {line}" for line in new.skill.warnings),
    ]
    if old is not None:
        lines += _changes(compare_packages(old, new))
        if new.skill.name not in pins:
            lines.append("replaces     a skill of that name that was put there by hand")
    lines += [f"{'LOOK' if is_grave(one) else 'note':<12} {one}" for one in new.findings[:FINDINGS]]
    if len(new.findings) > FINDINGS:
        lines.append(f"             … and {len(new.findings) - FINDINGS} more")
    return "\n".join(strip_controls(line) for line in lines)


def _changes(found: SkillPackageChange) -> list[str]:
    rows = (("added", found.added), ("removed", found.removed), ("changed", found.changed))
    made = [f"{label:<12} {', '.join(names)}" for label, names in rows if names]
    return made + [f"newly asks   {line}" for line in found.asks]


def _remove(asked: argparse.Namespace, loaded: LoadedConfig, place: InstalledSkills) -> int:
    pinned = asked.name in place.pins()
    there = os.path.isdir(os.path.join(place.root, asked.name)) if "/" not in asked.name else False
    if there and not pinned:
        print(strip_controls(f"{asked.name} was put there by hand: there is no other copy that Palinurus knows of"))
    if (there or pinned) and not _agreed(asked.yes, f"remove {strip_controls(asked.name)}?"):
        return 1
    place.remove(asked.name)
    print(f"removed  {strip_controls(asked.name)}")
    return 0


def _agreed(yes: bool, question: str) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise BadRequest(
            "this needs a yes, and there is no terminal to ask on", fix="look at what is said above, then add --yes"
        )
    return ask_person(f"{question} [y/N] ")


_NAMED = make_arg("name")
_YES = make_arg("--yes", action="store_true", help="do not ask")
_AGENT = make_arg("--agent", default="", help="default: the default agent")
_SOURCE = make_arg("source", metavar="NAME[@VERSION]|PATH|ZIP|GIT-URL")
_WHICH = make_arg("--skill", default="", metavar="NAME", help="which, if the source holds several")
VERBS = {
    "list": Verb(_list, "list all skills, and why some are not used", (_AGENT, JSON)),
    "check": Verb(_check, "check all skills for mistakes", (_AGENT, JSON)),
    "info": Verb(_info, "show all about a skill", (_NAMED, _AGENT, JSON)),
    "install": Verb(
        _install,
        "install from the registry, a folder, a .zip file or a git address; asks first, runs nothing",
        (_SOURCE, _WHICH, _YES),
    ),
    "search": Verb(partial(_call_store, "search"), "search the registry", (make_arg("words", nargs="+"), JSON)),
    "outdated": Verb(partial(_call_store, "outdated"), "list installed skills that have updates", (JSON,)),
    "update": Verb(
        _update, "update installed skills; shows the difference and asks", (make_arg("names", nargs="*"), _YES)
    ),
    "accept": Verb(_accept, "accept changed files of an installed skill", (_NAMED, _YES)),
    "publish": Verb(
        _publish,
        "publish a folder in the registry (CLAWHUB_TOKEN)",
        (
            make_arg("folder"),
            make_arg("--version", required=True, help="such as 1.0.0"),
            make_arg("--slug", default="", help="its name there; default: the skill's"),
            make_arg("--notes", default="", help="what is new"),
            _YES,
        ),
    ),
    "remove": Verb(_remove, "remove an installed skill", (_NAMED, _YES)),
}
