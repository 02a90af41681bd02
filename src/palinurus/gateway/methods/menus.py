"""models.*: what can be chosen, and which providers have a key. commands.list: what people can type, for menus."""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.core.types.keys import SessionKey
from palinurus.core.types.model import ModelFailure, ModelSpec
from palinurus.gateway.rpc import ADMIN, READ, GatewayMethod, MethodCall, MethodParams, NonEmpty
from palinurus.inbox.commands.table import build_menu
from palinurus.services.facts import find_levels


class CommandListParams(MethodParams, frozen=True):
    agent_id: NonEmpty | None = None
    scope: str | None = None
    include_args: bool | None = None
    provider: str | None = None


async def list_commands(call: MethodCall, asked: CommandListParams) -> dict[str, Any]:
    """Commands, directives and the agent's skills."""
    program = call.program
    rows = [
        {
            "name": row["name"],
            "nativeName": row["name"],
            "textAliases": [f"/{name}" for name in (row["name"], *row["aliases"])],
            "description": row["description"],
            "category": row["group"],
            "source": "plugin" if row["name"] in program.commands else "native",
            "scope": "both",
            "acceptsArgs": bool(row["usage"]),
            "usage": row["usage"],
        }
        for row in build_menu(owner=call.client.may(ADMIN), more=program.commands)
    ]
    agent = asked.agent_id if asked.agent_id in program.settings.agents else program.settings.default_agent
    key = SessionKey(agent or program.settings.default_agent, program.settings.session.main_key)
    rows += [
        {
            "name": f"skill {skill.name}",
            "textAliases": [f"/skill {skill.name}"],
            "description": skill.description,
            "category": "skills",
            "source": "skill",
            "scope": "text",
            "acceptsArgs": True,
        }
        for skill in program.skills(key)
    ]
    return {"commands": rows}


class ModelListParams(MethodParams, frozen=True):
    view: str | None = None


async def list_models(call: MethodCall, asked: ModelListParams | None) -> dict[str, Any]:
    """Every model of the catalog, with what it can do."""
    program = call.program
    agent = program.settings.agents[program.settings.default_agent]
    every = program.catalog.all(agent)
    ready = {ref.provider: not isinstance(program.catalog.key(m), ModelFailure) for m in every for ref in (m.ref,)}
    view = asked.view if asked is not None else None

    def wanted(model: ModelSpec) -> bool:
        if view == "configured":
            return model.ref.provider in program.settings.providers
        return view not in (None, "default") or ready[model.ref.provider]

    shown = [
        {
            "provider": model.ref.provider,
            "id": model.ref.model,
            "name": model.name or model.ref.model,
            "api": model.api,
            "contextWindow": model.context_window,
            "reasoning": bool(model.reasoning),
            "input": ["text", "image"] if model.vision else ["text"],
            "available": ready[model.ref.provider],
            **msgspec.to_builtins(find_levels(program, agent, model)),
        }
        for model in every
        if wanted(model)
    ]
    return {"models": shown}


async def get_auth_status(call: MethodCall, asked: None) -> dict[str, Any]:
    """Which providers could be used now, and where their key comes from; never the key."""
    program = call.program
    agent = program.settings.agents[program.settings.default_agent]
    found: dict[str, dict[str, Any]] = {}
    for model in program.catalog.all(agent):
        name = model.ref.provider
        if name not in found:
            missing = program.catalog.key(model)
            state = "missing" if isinstance(missing, ModelFailure) else "ok"
            found[name] = {"provider": name, "status": state, "source": program.catalog.key_source(name)}
    return {"ts": program.clock.now(), "providers": [row for row in found.values() if row["status"] == "ok"]}


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("commands.list", READ, CommandListParams, list_commands),
    GatewayMethod("models.list", READ, ModelListParams, list_models),
    GatewayMethod("models.authStatus", READ, None, get_auth_status),
)
