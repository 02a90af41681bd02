"""skills.status and skills.update: what skills there are, why one is not used, and switching them in the config."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Annotated, Any

from msgspec import Meta

from palinurus.config import rewrite
from palinurus.config.keypath import show_path
from palinurus.config.secrets import MARKER
from palinurus.core.skills.skill import Skill, SkillRequirements
from palinurus.errors import NotFound, PalinurusError
from palinurus.gateway.context import find_agent, refuse_in_fleet, require
from palinurus.gateway.rpc import ADMIN, READ, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.inbox.commands.command import CommandContext
from palinurus.workspace.discovery import locate_installed_skills
from palinurus.workspace.sources import SkillStock


class SkillStatusParams(MethodParams, frozen=True):
    agent_id: NonEmpty | None = None


class SkillUpdateParams(MethodParams, frozen=True):
    skill_key: Annotated[str, Meta(min_length=1, max_length=128)]
    enabled: bool | None = None
    api_key: str | None = None
    env: dict[str, str] | None = None


async def get_skill_status(call: MethodCall, asked: SkillStatusParams) -> dict[str, Any]:
    """Every skill that was found, and what it lacks."""
    program = call.program
    agent = find_agent(call, asked.agent_id)
    stock = require(program.stock, "there are no skills here")(agent.id)
    rows: list[tuple[Skill, tuple[str, ...]]] = [(skill, ()) for skill in stock.ready] + list(stock.waiting)
    return {
        "workspaceDir": agent.workspace,
        "managedSkillsDir": locate_installed_skills(program.settings.home),
        "skills": [_row(program, stock, skill, why) for skill, why in sorted(rows, key=lambda row: row[0].name)],
        "invalid": [{"name": one.name, "filePath": one.path, "reason": one.reason} for one in stock.found.broken],
    }


def _row(program: CommandContext, stock: SkillStock, skill: Skill, why: tuple[str, ...]) -> dict[str, Any]:
    entry = program.settings.skills.entries.get(skill.key)
    listed = {one.name for one in stock.offer.skills}
    made = {
        "name": skill.name,
        "description": skill.description,
        "source": skill.source,
        "bundled": skill.source == "bundled",
        "filePath": skill.path,
        "baseDir": os.path.dirname(skill.path),
        "skillKey": skill.key,
        "primaryEnv": skill.primary_env or None,
        "emoji": skill.emoji or None,
        "homepage": skill.homepage or None,
        "always": skill.always,
        "disabled": entry is not None and entry.enabled is False,
        "blockedByAllowlist": "not in skills.allowBundled" in why,
        "blockedByAgentFilter": "not in the agent's list of skills" in why,
        "eligible": not why,
        "reasons": list(why),
        "modelVisible": skill.name in listed,
        "userInvocable": skill.user_invocable,
        "commandVisible": skill.user_invocable and not why,
        "requirements": _needs(skill.requires, skill.os),
        "missing": _needs(_lacking(skill.requires, why), skill.os if why and why[0].startswith("for ") else ()),
        "configChecks": [],
        "install": [],
        "installHints": list(skill.install),
    }
    return {name: value for name, value in made.items() if value is not None}


def _needs(found: SkillRequirements, systems: tuple[str, ...]) -> dict[str, list[str]]:
    return {
        "bins": list(found.bins),
        "anyBins": list(found.any_bins),
        "env": list(found.env),
        "config": list(found.config),
        "os": list(systems),
    }


def _lacking(found: SkillRequirements, why: tuple[str, ...]) -> SkillRequirements:
    """What of it is not there, from the reasons that `core/skills/gates` gives."""
    return SkillRequirements(
        tuple(name for name in found.bins if f"no program {name}" in why),
        found.any_bins if any(reason.startswith("none of the programs") for reason in why) else (),
        tuple(name for name in found.env if f"{name} is not set" in why),
        tuple(path for path in found.config if f"config {path} is not set" in why),
    )


async def update_skill(call: MethodCall, asked: SkillUpdateParams) -> dict[str, Any]:
    """Switch a skill on or off, or give it its key and variables. "" takes a key away."""
    program = call.program
    await refuse_in_fleet(call)
    wanted: dict[str, Any] = {}
    if asked.enabled is not None:
        wanted["enabled"] = asked.enabled
    if asked.api_key is not None:
        wanted["apiKey"] = asked.api_key.strip()
    for name, value in (asked.env or {}).items():
        wanted[f"env.{name}"] = value
    home, environ = program.settings.home, program.environ
    try:
        for name, value in wanted.items():
            path = show_path(("skills", "entries", asked.skill_key, *name.split(".", 1)))
            if value == "":
                with contextlib.suppress(NotFound):
                    await asyncio.to_thread(rewrite.unset_config_key, home, environ, path)
            elif value != MARKER:
                await asyncio.to_thread(rewrite.set_config_key, home, environ, path, value)
    except PalinurusError as exc:
        raise MethodError(exc.message) from None
    shown = {name: value if isinstance(value, bool) else MARKER for name, value in wanted.items() if value != ""}
    return {"ok": True, "skillKey": asked.skill_key, "config": shown}


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("skills.status", READ, SkillStatusParams, get_skill_status),
    GatewayMethod("skills.update", ADMIN, SkillUpdateParams, update_skill),
)
