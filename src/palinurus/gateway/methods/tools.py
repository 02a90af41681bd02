"""tools.*: which tools there are, which a session has and why, and calling one without a model."""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.core.policy.groups import TOOL_PROFILES, normalize_tool_name
from palinurus.core.types.inbound import Inbound, Target
from palinurus.core.types.model import ModelFailure
from palinurus.gateway.invoke import DENIED
from palinurus.gateway.methods import chat
from palinurus.gateway.offers import grouped, hidden, label, offer
from palinurus.gateway.rpc import ADMIN, READ, WRITE, Call, Method, Params, RpcError, Word
from palinurus.gateway.scene import scene, sender


class Catalog(Params, frozen=True):
    agent_id: Word | None = None
    include_plugins: bool = True


class Effective(Params, frozen=True):
    session_key: Word
    agent_id: Word | None = None
    include_schemas: bool = False


class Invoke(Params, frozen=True):
    name: Word
    args: dict[str, Any] | None = None
    session_key: Word | None = None
    agent_id: Word | None = None
    confirm: bool | None = None
    idempotency_key: Word | None = None


async def catalog(call: Call, asked: Catalog) -> dict[str, Any]:
    """Every tool of this program."""
    desk = scene(call).desk
    agent = asked.agent_id or desk.settings.default_agent
    if agent not in desk.settings.agents:
        raise RpcError(f'unknown agent id "{agent[:64]}"')
    tools = [tool for tool in desk.tools.values() if asked.include_plugins or not tool.origin]
    profiles = [{"id": name, "label": label(name)} for name in TOOL_PROFILES]
    return {"agentId": agent, "profiles": profiles, "groups": grouped(tools)}


async def effective(call: Call, asked: Effective) -> dict[str, Any]:
    """What the session's next run gets if this client asks for it, and who keeps the others away."""
    here = scene(call)
    key = here.rows.key(asked.session_key, asked.agent_id)
    seen = await here.rows.load(key)
    message = Inbound(Target(chat.CHANNEL, to=str(key)), sender(call.client), "", "", here.desk.clock.now())
    found = offer(here.desk, seen, message)
    shared = here.desk.settings.policy.shared.own.profile
    return {
        "agentId": key.agent,
        "profile": shared or "full",
        "groups": grouped(found.tools.values(), schemas=asked.include_schemas),
        "hidden": hidden(here.desk, found, admin=call.client.may(ADMIN)),
        "notices": list(found.verdict.notes),
    }


async def invoke(call: Call, asked: Invoke) -> dict[str, Any]:
    """Call one, under the session's policy. Those that change things need a run, where people see it and are asked."""
    here = scene(call)
    key = here.rows.key(asked.session_key or here.desk.settings.session.main_key, asked.agent_id)
    name = (
        asked.name if asked.name in here.desk.tools else normalize_tool_name(asked.name)
    )  # those of others have capitals
    found = None
    if name not in DENIED:
        found = await call.gateway.host.invoke(key, name, asked.args or {}, sender(call.client))
    if found is None:
        return _failed(name, "not_found", f"Tool not available: {name[:80]}")
    if isinstance(found, ModelFailure):
        return _failed(name, "tool_error", found.message)
    if found.isError:
        return _failed(name, "tool_error", found.text)
    output = {"content": [msgspec.to_builtins(block) for block in found.content], "details": found.details}
    return {"ok": True, "toolName": name, "output": output, "source": "core"}


def _failed(name: str, code: str, message: str) -> dict[str, Any]:
    return {"ok": False, "toolName": name, "error": {"code": code, "message": message}}


METHODS: tuple[Method, ...] = (
    Method("tools.invoke", WRITE, Invoke, invoke),
    Method("tools.catalog", READ, Catalog, catalog),
    Method("tools.effective", READ, Effective, effective),
)
