"""skills.find, look, install, outdated, accept, remove: the store on the page. Shown first, then installed by the
hash of what was shown; nothing of a skill runs.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import Meta

from palinurus.gateway.context import refuse_in_fleet
from palinurus.gateway.rpc import ADMIN, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty, NoParams
from palinurus.services.skillstore import SkillStore, find_newer_skills, open_registry

Source = Annotated[str, Meta(max_length=2048)]


class SkillSearchParams(MethodParams, frozen=True):
    query: Annotated[str, Meta(min_length=1, max_length=200)]
    limit: Annotated[int, Meta(ge=1, le=50)] = 20


class SkillDetailParams(MethodParams, frozen=True):
    slug: Source = ""  # a name in the registry, with or without @version, or a git address
    name: Source = ""  # or an installed one: what its origin has now


class SkillInstallParams(SkillDetailParams, frozen=True):
    sha256: NonEmpty = ""  # of what was shown


class InstalledSkillParams(MethodParams, frozen=True):
    name: NonEmpty


def _open(call: MethodCall) -> SkillStore:
    return SkillStore(call.program.settings, call.program.environ)


async def search_store(call: MethodCall, asked: SkillSearchParams) -> dict[str, Any]:
    """What the registry has."""
    program = call.program
    found = await open_registry(program.settings, program.environ).search(asked.query, asked.limit)
    pins = await asyncio.to_thread(_open(call).place.pins)
    rows = [
        {"slug": one.slug, "displayName": one.name, "summary": one.summary, "version": one.version,
         "owner": one.owner, "warning": one.warning, "blocked": one.blocked, "installed": one.slug in pins}
        for one in found
    ]  # fmt: skip
    return {"results": rows}


async def describe_store_skill(call: MethodCall, asked: SkillDetailParams) -> dict[str, Any]:
    """What one would be: its permissions in plain words, what the scanner found, how it differs from what is here."""
    store = _open(call)
    new, got = await store.fetch(asked.slug, asked.name)
    return await asyncio.to_thread(store.describe, new, got)


async def install_skill(call: MethodCall, asked: SkillInstallParams) -> dict[str, Any]:
    """Fetch it again and install it, if it is still what was shown."""
    await refuse_in_fleet(call)
    store = _open(call)
    new, got = await store.fetch(asked.slug, asked.name)
    if new.digest != asked.sha256:
        raise MethodError("it is not what was shown any more: look at it again")
    where = await asyncio.to_thread(store.put, new, got, call.program.clock.now())
    return {"ok": True, "name": new.skill.name, "where": where}


async def list_outdated_skills(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """Installed ones: what there is newer of, what was changed since it was installed, what cannot be told."""
    program, store = call.program, _open(call)
    pins, drift = await asyncio.to_thread(store.place.pins), await asyncio.to_thread(store.place.drift)
    newer, problems = await find_newer_skills(pins, program.settings, program.environ)
    return {
        "installed": [{"name": name, "origin": pin.origin, "commit": pin.commit} for name, pin in sorted(pins.items())],
        "outdated": [{"name": name, "now": now, "newest": newest} for name, (now, newest) in newer.items()],
        "changed": [{"name": name, "what": what} for name, what in drift.items()],
        "problems": [{"name": name, "problem": problem} for name, problem in problems.items()],
    }


async def accept_skill(call: MethodCall, asked: InstalledSkillParams) -> dict[str, Any]:
    """A person has looked at what was changed in it."""
    await refuse_in_fleet(call)
    place = _open(call).place
    return {"ok": True, "sha256": await asyncio.to_thread(place.accept, asked.name, call.program.clock.now())}


async def remove_skill(call: MethodCall, asked: InstalledSkillParams) -> dict[str, Any]:
    """Take an installed one away. One that was put there by hand is the terminal's: there may be no other copy."""
    await refuse_in_fleet(call)
    place = _open(call).place
    if asked.name not in await asyncio.to_thread(place.pins):
        raise MethodError(f"{asked.name[:80]} was not installed from anywhere; `pal skills remove` asks first")
    await asyncio.to_thread(place.remove, asked.name)
    return {"ok": True}


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("skills.find", ADMIN, SkillSearchParams, search_store),
    GatewayMethod("skills.look", ADMIN, SkillDetailParams, describe_store_skill),
    GatewayMethod("skills.install", ADMIN, SkillInstallParams, install_skill),
    GatewayMethod("skills.outdated", ADMIN, NoParams, list_outdated_skills),
    GatewayMethod("skills.accept", ADMIN, InstalledSkillParams, accept_skill),
    GatewayMethod("skills.remove", ADMIN, InstalledSkillParams, remove_skill),
)
