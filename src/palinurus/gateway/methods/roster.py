"""agents.create, agents.update and agents.delete: changes of the config. Files of an agent are never deleted here."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from palinurus.config import rewrite
from palinurus.core.types.keys import parse_agent_id
from palinurus.errors import ConfigError, PalinurusError
from palinurus.gateway.rpc import ADMIN, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.scene import get_context

MAIN = "main"
_OTHER = re.compile(r"[^a-z0-9_-]+")


class AgentCreateParams(MethodParams, frozen=True):
    name: NonEmpty
    workspace: NonEmpty
    model: NonEmpty | None = None
    emoji: str | None = None
    avatar: str | None = None


class AgentUpdateParams(MethodParams, frozen=True):
    agent_id: NonEmpty
    name: NonEmpty | None = None
    workspace: NonEmpty | None = None
    model: NonEmpty | None = None
    emoji: str | None = None
    avatar: str | None = None


class AgentDeleteParams(MethodParams, frozen=True):
    agent_id: NonEmpty
    delete_files: bool | None = None


async def create_agent(call: MethodCall, asked: AgentCreateParams) -> dict[str, Any]:
    """One more agent; its id is made from its name."""
    ident = parse_agent_id(_OTHER.sub("-", asked.name.strip().lower()).strip("-")[:64])
    if ident is None:
        raise MethodError(f'"{asked.name[:64]}" cannot be made into an agent id')
    entry = {"id": ident, "name": asked.name.strip(), "workspace": asked.workspace, **_facts(asked)}

    def make(raw: Any) -> Any:
        agents = _agents(raw)
        if ident in _ids(agents):
            raise MethodError(f'agent "{ident}" already exists')
        # A config without a list has one agent, main; a list has only what it names.
        listed = list(agents.get("list") or ())
        first = [] if listed or agents.get("entries") else [{"id": MAIN, "default": True}]
        if ident == MAIN and first:
            raise MethodError(f'agent "{ident}" already exists')
        return {**raw, "agents": {**agents, "list": [*first, *listed, entry]}}

    await _change(call, make)
    shown = {"model": asked.model} if asked.model else {}
    return {"ok": True, "agentId": ident, "name": asked.name.strip(), "workspace": asked.workspace, **shown}


async def update_agent(call: MethodCall, asked: AgentUpdateParams) -> dict[str, Any]:
    """Change one."""
    ident = _named(asked.agent_id)
    given = {"name": asked.name, "workspace": asked.workspace}
    new = {name: value for name, value in given.items() if value is not None} | _facts(asked)

    def make(raw: Any) -> Any:
        agents = _agents(raw)
        if ident not in _ids(agents):
            if ident != MAIN or _ids(agents):
                raise MethodError(f'agent "{ident}" not found')
            return {**raw, "agents": {**agents, "list": [{"id": MAIN, "default": True, **new}]}}
        return {**raw, "agents": _mapped(agents, ident, lambda entry: _laid(entry, new))}

    await _change(call, make)
    return {"ok": True, "agentId": ident}


async def delete_agent(call: MethodCall, asked: AgentDeleteParams) -> dict[str, Any]:
    """Take one out of the config, with its bindings. Its workspace and its sessions stay on disk."""
    ident = _named(asked.agent_id)
    removed: list[Any] = []

    def make(raw: Any) -> Any:
        agents = _agents(raw)
        if ident == get_context(call).desk.settings.default_agent:
            raise MethodError(f'"{ident}" cannot be deleted')
        if ident not in _ids(agents):
            raise MethodError(f'agent "{ident}" not found')
        bindings = [one for one in raw.get("bindings") or () if isinstance(one, dict)]
        removed.extend(one for one in bindings if str(one.get("agentId", "")).lower() == ident)
        made = {**raw, "agents": _mapped(agents, ident, lambda entry: None)}
        return {**made, "bindings": [b for b in raw["bindings"] if b not in removed]} if removed else made

    await _change(call, make)
    return {"ok": True, "agentId": ident, "removedBindings": len(removed), "filesKept": True}


def _facts(asked: AgentCreateParams | AgentUpdateParams) -> dict[str, Any]:
    known = {"emoji": asked.emoji, "avatar": asked.avatar}
    identity = {name: value for name, value in known.items() if value}
    model = {"model": asked.model} if asked.model else {}
    return {**model, **({"identity": identity} if identity else {})}


def _laid(entry: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    identity = {**(entry.get("identity") or {}), **new.get("identity", {})}
    return {**entry, **new, **({"identity": identity} if identity else {})}


def _agents(raw: Any) -> dict[str, Any]:
    found = raw.get("agents") if isinstance(raw, dict) else None
    return found if isinstance(found, dict) else {}


def _ids(agents: dict[str, Any]) -> set[str]:
    listed = {str(one.get("id", "")).strip().lower() for one in agents.get("list") or () if isinstance(one, dict)}
    return listed | {str(name).strip().lower() for name in agents.get("entries") or {}}


def _mapped(
    agents: dict[str, Any], ident: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> dict[str, Any]:
    """With one entry changed; None from `change` leaves it out."""
    made = dict(agents)
    if isinstance(agents.get("list"), list):
        pairs = [(one, str(one.get("id", "")).strip().lower() == ident) for one in agents["list"]]
        made["list"] = [new for one, own in pairs if (new := change(one) if own else one) is not None]
    if isinstance(agents.get("entries"), dict):
        entries = {key: (one, key.strip().lower() == ident) for key, one in agents["entries"].items()}
        made["entries"] = {
            key: new for key, (one, own) in entries.items() if (new := change(one) if own else one) is not None
        }
    return made


def _named(text: str) -> str:
    ident = parse_agent_id(text)
    if ident is None:
        raise MethodError(f'agent "{text[:64]}" not found')
    return ident


async def _change(call: MethodCall, make: Callable[[Any], Any]) -> None:
    desk = get_context(call).desk
    try:
        await asyncio.to_thread(rewrite.adjust_config, desk.settings.home, desk.environ, make)
    except ConfigError as exc:
        issues = [{"path": p.path, "message": p.message} for p in exc.problems]
        raise MethodError(f"invalid config: {exc.problems[0]}", details={"issues": issues}) from None
    except PalinurusError as exc:
        raise MethodError(exc.message, code="UNAVAILABLE") from None


ROSTER_METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("agents.create", ADMIN, AgentCreateParams, create_agent),
    GatewayMethod("agents.update", ADMIN, AgentUpdateParams, update_agent),
    GatewayMethod("agents.delete", ADMIN, AgentDeleteParams, delete_agent),
)
