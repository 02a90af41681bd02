"""Skills of a registry and of git, for the terminal and for the page: what there is, what one asks for, what is newer.

Nothing of a skill runs. What is installed is what was shown: by its hash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from palinurus.config.settings import Settings
from palinurus.core.policy.address import OpenHosts, UrlParts, parse_url
from palinurus.core.skills.danger import is_grave
from palinurus.core.skills.needs import tell_permissions
from palinurus.errors import BadRequest, PalinurusError
from palinurus.tools.web.egress import EgressGuard, FetchFailure, FetchLimits, FetchRequest
from palinurus.workspace.discovery import locate_installed_skills
from palinurus.workspace.install.packages import (
    InstalledSkills,
    SkillPackage,
    SkillPin,
    choose_package,
    compare_packages,
    list_demands,
)
from palinurus.workspace.install.registry import (
    ORIGIN,
    VARIABLE,
    RegistryAnswer,
    RegistryRequest,
    SkillRegistry,
    parse_slug,
)
from palinurus.workspace.install.source import SkillDownload, fetch_source, find_newest_commit

FINDINGS = 25  # shown before an installation
_LIMITS = FetchLimits(size=25_000_000, time=120.0, redirects=3)


def open_registry(settings: Settings, environ: Mapping[str, str]) -> SkillRegistry:
    """The registry, asked through the gate for outgoing calls; one that the owner names may be on this machine."""
    spot = parse_url(environ.get(VARIABLE, "") or "https://nowhere.invalid")
    named = OpenHosts(frozenset((spot.entry,))) if isinstance(spot, UrlParts) else OpenHosts()
    rules = settings.web.fetch.rules
    guard = EgressGuard(rules)

    async def fetch(asked: RegistryRequest) -> RegistryAnswer:
        try:
            got = await guard.get(FetchRequest(asked.url, asked.headers, asked.body, rules.join(named)), _LIMITS)
        except FetchFailure as error:
            return RegistryAnswer(0, str(error).encode())
        if got.cut:
            return RegistryAnswer(0, b"the answer is larger than a skill may be")
        return RegistryAnswer(got.status, got.data)

    return SkillRegistry(fetch, environ)


async def fetch_skill_again(pin: SkillPin, settings: Settings, environ: Mapping[str, str]) -> SkillDownload:
    """What its origin has now. Raises BadRequest, NotFound, PalinurusError."""
    if pin.origin.startswith(ORIGIN):
        return await open_registry(settings, environ).download(pin.origin.removeprefix(ORIGIN))
    if pin.origin == "by hand":
        raise BadRequest(
            "it was put there by hand: there is nothing to fetch it from",
            fix="`pal skills install` one of the same name from the store, or edit it in place",
        )
    return await asyncio.to_thread(fetch_source, pin.origin, environ)


async def find_newer_skills(
    pins: Mapping[str, SkillPin], settings: Settings, environ: Mapping[str, str]
) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """Name -> what it is and what there is; and name -> why that cannot be told."""
    registry = open_registry(settings, environ)
    made, problems = dict[str, tuple[str, str]](), dict[str, str]()
    for name, pin in sorted(pins.items()):
        newest = ""
        try:
            if pin.origin.startswith(ORIGIN):
                newest = (await registry.describe(pin.origin.removeprefix(ORIGIN))).version
            elif "://" in pin.origin:
                newest = (await asyncio.to_thread(find_newest_commit, pin.origin, environ))[:12]
        except PalinurusError as error:
            problems[name] = error.message
            continue
        now = pin.commit if pin.origin.startswith(ORIGIN) else pin.commit[:12]
        if newest and newest != now:
            made[name] = (now, newest)
    return made, problems


class SkillStore:
    """What the page's store does: look first, then install exactly what was looked at."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings, self._environ = settings, environ
        self.place = InstalledSkills(locate_installed_skills(settings.home))

    async def fetch(self, source: str, name: str = "") -> tuple[SkillPackage, SkillDownload]:
        """The skill of that name in the registry, of that git address, or what an installed one's origin has now
        (`name`). Folders of this machine are the terminal's. Raises BadRequest, NotFound, PalinurusError."""
        if name:
            if (pin := self.place.pins().get(name)) is None:
                raise BadRequest(
                    f"{name} was not installed from anywhere", fix="`pal skills list` says where each came from"
                )
            got = await fetch_skill_again(pin, self._settings, self._environ)
        elif (slug := parse_slug(source)) is not None:
            got = await open_registry(self._settings, self._environ).download(*slug)
        elif source.startswith("https://"):
            got = await asyncio.to_thread(fetch_source, source, self._environ)
        else:
            raise BadRequest("a name in the registry, or a git address that begins with https://")
        return choose_package(got.parts, got.origin, name, self._settings.skills.file_bytes), got

    def describe(self, new: SkillPackage, got: SkillDownload) -> dict[str, Any]:
        """What a person decides by."""
        old = self.place.read_package(new.skill.name)
        change = compare_packages(old, new) if old is not None else None
        shown = [{"text": str(one), "grave": is_grave(one)} for one in new.findings[:FINDINGS]]
        return {
            "name": new.skill.name,
            "description": new.skill.description,
            "origin": got.origin,
            "commit": got.commit,
            "sha256": new.digest,
            "files": [{"name": part.name, "bytes": len(part.data)} for part in new.parts],
            "permissions": list(tell_permissions(new.skill, frozenset(one.kind for one in new.findings))),
            "demands": list(list_demands(new.skill)),
            "warnings": list(new.skill.warnings),
            "findings": shown,
            "more": max(0, len(new.findings) - FINDINGS),
            "installed": old is not None,
            "same": old is not None and old.digest == new.digest,
            "changes": None
            if change is None
            else {"added": change.added, "removed": change.removed, "changed": change.changed, "asks": change.asks},
        }

    def put(self, new: SkillPackage, got: SkillDownload, at: int) -> str:
        """Install it; where it is. Raises StateError kinds."""
        return self.place.put(new, SkillPin(new.digest, got.origin, at, got.commit))
