"""Which tools a session has, and why not the others, as clients read it. Asks the policy; decides nothing."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from palinurus.agent.offer import ToolOffer, ToolOffers
from palinurus.config.policy import find_key_source
from palinurus.core.policy.groups import TOOL_GROUPS, TOOL_PROFILES, allows_tool
from palinurus.core.policy.words import describe_tool_verdict
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.tool import Tool
from palinurus.gateway.rows import SessionSnapshot
from palinurus.inbox.commands.desk import CommandContext
from palinurus.inbox.commands.facts import find_session_model
from palinurus.sessions.record import SessionRecord

LABELS = {"fs": "Files", "ui": "UI", "mcp": "MCP"}


def find_tool_offer(desk: CommandContext, seen: SessionSnapshot, inbound: Inbound) -> ToolOffer:
    """What a run of the session would get for this message."""
    record = seen.record or SessionRecord(sessionId="")
    offers = ToolOffers(desk.settings, desk.catalog, desk.tools)
    return offers.offer(
        offers.question(seen.key, inbound, find_session_model(desk.catalog, seen.agent, record), record)
    )


def list_hidden_tools(desk: CommandContext, found: ToolOffer, *, admin: bool) -> list[dict[str, Any]]:
    """Every tool that is kept away, with who did it; where that is written is told to admins only."""
    where = partial(find_key_source, desk.settings) if admin else lambda key: ""
    shown = []
    for name in found.hidden:
        why = describe_tool_verdict(name, found.verdict, where)
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
