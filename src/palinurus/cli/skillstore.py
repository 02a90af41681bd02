"""`pal skills search|install NAME|update|outdated|publish`: skills of a registry (ClawHub's API) and of git, behind the
scanner, pinned by hash. Everything is shown and asked before it is written; nothing of a skill runs.
"""

from __future__ import annotations

import argparse
import asyncio
import os

from palinurus.cli.args import to_json
from palinurus.cli.render import strip_controls
from palinurus.config.load import LoadedConfig
from palinurus.core.text import format_count
from palinurus.errors import BadRequest, NotFound
from palinurus.services.skillstore import fetch_skill_again, find_newer_skills, open_registry
from palinurus.workspace.install.packages import InstalledSkills, SkillPin, choose_package
from palinurus.workspace.install.registry import parse_slug
from palinurus.workspace.install.source import SkillDownload, fetch_source


def download_skill(source: str, loaded: LoadedConfig) -> SkillDownload | None:
    """The skill of that name in the registry; None if this is no such name. Raises NotFound, PalinurusError."""
    found = parse_slug(source)
    if found is None:
        return None
    return asyncio.run(open_registry(loaded.settings, os.environ).download(*found))


def search_skills(asked: argparse.Namespace, loaded: LoadedConfig, place: InstalledSkills) -> int:
    """A line for each that fits."""
    found = asyncio.run(open_registry(loaded.settings, os.environ).search(" ".join(asked.words)))
    if asked.json:
        print(to_json([{"slug": one.slug, "version": one.version, "summary": one.summary} for one in found]))
        return 0
    width = max((len(one.slug) for one in found), default=0)
    for one in found:
        there = "  (installed)" if one.slug in place.pins() else ""
        print(strip_controls(f"{one.slug:<{width}}  {one.version:<8}  {one.summary}{there}"))
    print("`pal skills install NAME` shows what one asks for and asks you first" if found else "nothing fits")
    return 0


def list_outdated(asked: argparse.Namespace, loaded: LoadedConfig, place: InstalledSkills) -> int:
    """What there is newer of; 0. Raises PalinurusError."""
    rows, problems = asyncio.run(find_newer_skills(place.pins(), loaded.settings, os.environ))
    for name, problem in problems.items():
        print(strip_controls(f"{name}: {problem}"))
    if asked.json:
        print(to_json({name: {"now": now, "newest": newest} for name, (now, newest) in rows.items()}))
        return 0
    for name, (now, newest) in rows.items():
        print(strip_controls(f"{name}  {now or 'unknown'} -> {newest}"))
    print(f"{len(rows)} can be updated: `pal skills update NAME`" if rows else "everything is the newest there is")
    return 0


def fetch_again(pin: SkillPin, loaded: LoadedConfig) -> SkillDownload:
    """What its origin has now. Raises BadRequest, NotFound, PalinurusError."""
    return asyncio.run(fetch_skill_again(pin, loaded.settings, os.environ))


def publish_skill(asked: argparse.Namespace, loaded: LoadedConfig, place: InstalledSkills) -> int:
    """Put a folder into the registry. Raises BadRequest, NotFound, PalinurusError."""
    if not os.path.isdir(asked.folder):
        raise NotFound(f"there is no folder {asked.folder}", fix="name the folder that holds SKILL.md")
    got = fetch_source(asked.folder, os.environ)
    made = choose_package(got.parts, got.origin, "", loaded.settings.skills.file_bytes)
    slug = asked.slug or made.skill.name
    found = parse_slug(slug)
    if found is None or found[1]:
        raise BadRequest(f"{slug!r} cannot be a name there", fix="--slug with a-z, 0-9 and hyphens")
    registry = open_registry(loaded.settings, os.environ)
    print(strip_controls(f"{slug} {asked.version}: {format_count(len(made.parts), 'file')}, {made.skill.description}"))
    for one in made.findings[:10]:
        print(strip_controls(f"note  {one}"))
    if not asked.agree(asked.yes, f"publish it at {registry.base}, for everybody to see?"):
        return 1
    print(f"published  {asyncio.run(registry.publish(slug, asked.version, made.parts, asked.notes))}")
    return 0
