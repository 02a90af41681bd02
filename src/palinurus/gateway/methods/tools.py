"""tools.*: which tools there are, which a session has and why, and calling one without a model.

Asks the policy; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from palinurus.agent.plan.offer import ToolOffers
from palinurus.config.sections.policy import find_key_source
from palinurus.core.policy.decide import ToolVerdict, describe_tool_verdict
from palinurus.core.policy.groups import TOOL_GROUPS, TOOL_PROFILES, allows_tool, normalize_tool_name
from palinurus.core.types.inbound import Inbound, Target
from palinurus.core.types.tool import Tool
from palinurus.gateway.context import MainSessionParams, SessionParams, find_agent
from palinurus.gateway.invoke import ToolRefusal, call_tool
from palinurus.gateway.methods import chat
from palinurus.gateway.rpc import ADMIN, READ, WRITE, GatewayMethod, MethodCall, MethodParams, NonEmpty
from palinurus.gateway.views import SessionSnapshot
from palinurus.inbox.commands.command import CommandContext
from palinurus.services.facts import find_session_model
from palinurus.sessions.record import SessionRecord

LABELS = {"fs": "Files", "ui": "UI", "mcp": "MCP"}


def judge_tools(program: CommandContext, seen: SessionSnapshot, inbound: Inbound) -> ToolVerdict:
    """What a run of the session would get for this message."""
    record = seen.record or SessionRecord(sessionId="")
    offers = ToolOffers(program.settings, program.catalog, program.tools)
    return offers.judge(
        offers.question(seen.key, inbound, find_session_model(program.catalog, seen.agent, record), record)
    )


def list_hidden_tools(program: CommandContext, found: ToolVerdict, *, admin: bool) -> list[dict[str, Any]]:
    """Every tool that is kept away, with who did it; where that is written is told to admins only."""
    where = partial(find_key_source, program.settings) if admin else lambda key: ""
    shown = []
    for name in found.hidden:
        why = describe_tool_verdict(name, found, where)
        names = ("reason", "layer", "key", "source", "changes")
        shown.append({"id": name, **{part: why[part] for part in names if why.get(part)}})
    return shown


def group_tools(tools: Iterable[Tool], *, schemas: bool = False) -> list[dict[str, Any]]:
    """Tools under the groups that policies name; with `schemas` also what a caller needs."""
    found: dict[str, list[dict[str, Any]]] = {}
    for tool in tools:
        needs = {"about": tool.description, "parameters": tool.parameters, "effect": tool.effect} if schemas else {}
        found.setdefault(_group(tool), []).append({**_entry(tool), **needs})
    return [
        {"id": ident, "label": make_label(ident), "source": "plugin" if ident == "plugins" else "core", "tools": rows}
        for ident, rows in found.items()
    ]


def make_label(ident: str) -> str:
    """A heading for people."""
    return LABELS.get(ident) or ident.replace("_", " ").capitalize()


def _group(tool: Tool) -> str:
    if tool.origin:
        return "plugins"
    return next((name.removeprefix("group:") for name, tools in TOOL_GROUPS.items() if tool.name in tools), "other")


def _entry(tool: Tool) -> dict[str, Any]:
    text = tool.description.split(". ")[0].rstrip(".")
    made: dict[str, Any] = {
        "id": tool.name,
        "label": tool.name,
        "description": text,
        "source": "plugin" if tool.origin else "core",
        "defaultProfiles": [
            name for name, words in TOOL_PROFILES.items() if allows_tool(words, tool.name, tool.origin)
        ],
    }
    return {**made, "pluginId": tool.origin} if tool.origin else made


class ToolCatalogParams(MethodParams, frozen=True):
    agent_id: NonEmpty | None = None
    include_plugins: bool = True


class EffectiveToolsParams(SessionParams, frozen=True):
    include_schemas: bool = False


class ToolInvokeParams(MainSessionParams, frozen=True, kw_only=True):
    name: NonEmpty
    args: dict[str, Any] | None = None
    confirm: bool | None = None
    idempotency_key: NonEmpty | None = None


async def get_tool_catalog(call: MethodCall, asked: ToolCatalogParams) -> dict[str, Any]:
    """Every tool of this program."""
    agent = find_agent(call, asked.agent_id)
    tools = [tool for tool in call.program.tools.values() if asked.include_plugins or not tool.origin]
    profiles = [{"id": name, "label": make_label(name)} for name in TOOL_PROFILES]
    return {"agentId": agent.id, "profiles": profiles, "groups": group_tools(tools)}


async def get_effective_tools(call: MethodCall, asked: EffectiveToolsParams) -> dict[str, Any]:
    """What the session's next run gets if this client asks for it, and who keeps the others away."""
    here = call.context
    key = asked.resolve(call)
    seen = await here.reader.load(key)
    message = Inbound(Target(chat.CHANNEL, to=str(key)), call.sender, "", "", at=here.program.clock.now())
    found = judge_tools(here.program, seen, message)
    offered = [here.program.tools[name] for name in found.offered]
    shared = here.program.settings.policy.shared.own.profile
    return {
        "agentId": key.agent,
        "profile": shared or "full",
        "groups": group_tools(offered, schemas=asked.include_schemas),
        "hidden": list_hidden_tools(here.program, found, admin=call.client.may(ADMIN)),
        "notices": list(found.notes),
    }


async def invoke_tool(call: MethodCall, asked: ToolInvokeParams) -> dict[str, Any]:
    """Call one, under the session's policy. Those that change things need a run, where people see it and are asked."""
    known = call.program.tools
    name = asked.name if asked.name in known else normalize_tool_name(asked.name)  # those of others have capitals
    found = await call_tool(call.gateway.host, asked.resolve(call), name, asked.args or {}, sender=call.sender)
    if isinstance(found, ToolRefusal):
        return {"ok": False, "toolName": name, "error": {"code": found.kind, "message": found.message}}
    source = "plugin" if name in known and known[name].origin else "core"
    return {"ok": True, "toolName": name, "output": found, "source": source}


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("tools.invoke", WRITE, ToolInvokeParams, invoke_tool),
    GatewayMethod("tools.catalog", READ, ToolCatalogParams, get_tool_catalog),
    GatewayMethod("tools.effective", READ, EffectiveToolsParams, get_effective_tools),
)
