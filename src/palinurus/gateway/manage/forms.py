"""channels.forms, plugins.list: what a page needs to add chat apps and to switch plugins. It writes by config.patch."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from palinurus.config.secrets import is_secret
from palinurus.core.channelneeds import NEEDS, OWN_KEYS, find_own_kind
from palinurus.gateway.rpc import ADMIN, GatewayMethod, MethodCall, NoParams
from palinurus.plugins.manifest import BrokenPlugin, PluginManifest, explain_unused, find_plugins

HIDDEN = ("spool",)  # for scripts


async def list_channel_forms(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """Every chat app that can be added: the keys it cannot do without, then its others, their kinds, which are secrets;
    and the command that brings its library where that is missing."""
    chats = call.program.chats
    missing = await asyncio.to_thread(chats.receivers.list_missing) if chats else {}
    accounts = call.program.settings.accounts
    names = [name for name in {**NEEDS, **OWN_KEYS} if name not in HIDDEN]
    rows = [{"id": one, "fields": _list_fields(one), "added": one in accounts} for one in names]
    return {"channels": [{**row, "missing": missing.get(str(row["id"]), "")} for row in rows]}


def _list_fields(name: str) -> list[dict[str, Any]]:
    needs = {need.key: need for need in NEEDS.get(name, ())}
    others = [key for keys in OWN_KEYS.get(name, {}).values() for key in keys.split() if key not in needs]
    fields = []
    for key in (*needs, *others):
        need = needs.get(key)
        told = {"about": need.about, "env": need.env} if need else {"about": "", "env": ""}
        facts = {"key": key, "kind": find_own_kind(name, key) or "text", "required": need is not None}
        fields.append({**facts, **told, "secret": is_secret(("channels", name, key))})
    return fields


async def list_plugins(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """Every plugin that was found, whether it is used, what it may bring, and the form of its settings. Nothing of a
    plugin is run for this."""
    settings = call.program.settings
    found = await asyncio.to_thread(find_plugins, settings)
    return {"plugins": [_describe(one, explain_unused(settings.plugins, one)) for one in found]}


def _describe(one: PluginManifest | BrokenPlugin, why: str) -> dict[str, Any]:
    told: dict[str, Any] = {"id": one.id, "folder": one.folder, "enabled": not why, "reason": why}
    if isinstance(one, BrokenPlugin):
        return {**told, "broken": True}
    facts = {"name": one.name, "description": one.description, "version": one.version, "package": one.package}
    return {**told, **facts, "capabilities": list(one.capabilities), "schema": msgspec.to_builtins(one.schema)}


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("channels.forms", ADMIN, NoParams, list_channel_forms),
    GatewayMethod("plugins.list", ADMIN, NoParams, list_plugins),
)
