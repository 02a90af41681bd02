"""channels.forms, plugins.list: what a page needs to add chat apps and to switch plugins. It writes by config.patch."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from palinurus.config.explain import lookup_key
from palinurus.config.secrets import is_secret
from palinurus.core.channelneeds import NEEDS
from palinurus.gateway.rpc import ADMIN, GatewayMethod, MethodCall, NoParams
from palinurus.plugins.manifest import BrokenPlugin, PluginManifest, explain_unused, find_plugins

HIDDEN = ("spool",)  # for scripts


async def list_channel_forms(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """Every chat app that can be added: the keys it cannot do without, their types, which are secrets."""
    return {"channels": await asyncio.to_thread(_list_forms, call)}


def _list_forms(call: MethodCall) -> list[dict[str, Any]]:
    accounts = call.program.settings.accounts
    rows = []
    for name, needs in NEEDS.items():
        if name in HIDDEN:
            continue
        fields = []
        for need in needs:
            found = lookup_key(f"channels.{name}.{need.key}") or {}
            kind = (found.get("schema") or {}).get("type", "string")
            secret = is_secret(("channels", name, need.key))
            fields.append({"key": need.key, "about": need.about, "type": kind, "secret": secret, "env": need.env})
        rows.append({"id": name, "fields": fields, "added": name in accounts})
    rows.append({"id": "whatsapp", "fields": [], "added": "whatsapp" in accounts})  # a code that a phone reads
    return rows


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
