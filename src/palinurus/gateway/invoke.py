"""POST /tools/invoke: one tool, without a model. A list of tools is not reachable this way, unless `gateway.tools` says
so, nor is what it denies."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp.web_response import Response, StreamResponse

from palinurus.config.sections.gateway import InvokeRules
from palinurus.core.policy.groups import matches_tool, normalize_tool_name
from palinurus.core.types.inbound import Sender, make_sender
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.core.types.model import ModelFailure
from palinurus.gateway import http
from palinurus.gateway.http import HttpFault, RouteRequest, read_body
from palinurus.gateway.port import GatewayHost

BODY = 2 * 1024 * 1024
# What changes the machine, starts work or speaks for the owner needs a run, where people see it and are asked.
DENIED_TOOLS = frozenset(
    {
        *("exec", "process", "spawn", "shell", "bash", "apply_patch", "write", "edit"),
        *("fs_write", "fs_delete", "fs_move", "sessions_spawn", "sessions_send", "message"),
        *("cron", "gateway", "nodes", "whatsapp_login"),
    }
)


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    tool: str = ""
    name: str = ""  # another word for it that clients use
    args: dict[str, Any] = {}
    action: str | None = None
    session_key: str | None = None
    agent_id: str | None = None
    idempotency_key: str | None = None


async def handle_invoke(visit: RouteRequest) -> StreamResponse | HttpFault:
    """Answer one request."""
    host = visit.host
    data = await read_body(visit.request)
    if isinstance(data, HttpFault):
        return data
    if len(data) > BODY:
        return _no(413, "invalid_request", f"the body is larger than {BODY} bytes")
    try:
        asked = msgspec.json.decode(data or b"{}", type=_Body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        return _no(400, "invalid_request", f"the body is not understood: {exc}")
    name = (asked.tool or asked.name).strip()
    if not name:
        return _no(400, "invalid_request", "tools.invoke requires name")
    settings = host.settings
    agent = asked.agent_id or settings.default_agent
    typed = asked.session_key or "main"
    key = parse_session_key(settings.session.main_key if typed == "main" else typed, agent)
    if key is None or key.agent not in settings.agents:
        return _no(400, "invalid_request", "that is not a session key of a known agent")
    args = {**asked.args, **({"action": asked.action} if asked.action else {})}
    found = await call_tool(host, key, name, args, sender=make_sender(visit.caller))
    if isinstance(found, ToolRefusal):
        return _no(found.status, found.kind, found.message)
    return http.reply_json({"ok": True, "toolCallId": str(uuid.uuid4()), "result": found})


class ToolRefusal(msgspec.Struct, frozen=True):
    """Why a tool was not called, or what it failed with."""

    kind: str
    message: str
    status: int  # of HTTP


def is_tool_denied(name: str, rules: InvokeRules) -> bool:
    """May the tool never be called without a run, however it is spelled?"""
    plain = normalize_tool_name(name)
    if any(matches_tool(normalize_tool_name(word), plain, "") for word in rules.deny):
        return True
    named = {normalize_tool_name(word) for word in rules.allow}
    return (name in DENIED_TOOLS or plain in DENIED_TOOLS) and plain not in named


async def call_tool(
    host: GatewayHost, key: SessionKey, name: str, args: Mapping[str, Any], *, sender: Sender
) -> dict[str, Any] | ToolRefusal:
    """What the tool says, called outside any run."""
    found = None if is_tool_denied(name, host.settings.gateway.tools) else await host.invoke(key, name, args, sender)
    if found is None:
        return ToolRefusal("not_found", f"Tool not available: {name[:80]}", 404)
    if isinstance(found, ModelFailure):
        return ToolRefusal("tool_error", found.message, 500)
    if found.isError:
        return ToolRefusal("tool_error", found.text, 400)
    return {"content": [msgspec.to_builtins(block) for block in found.content], "details": found.details}


def _no(status: int, kind: str, message: str) -> Response:
    return http.reply_json({"ok": False, "error": {"type": kind, "message": message}}, status)
