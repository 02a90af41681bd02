"""Methods about the program as a whole: health, who is here, status, logs, identity and nodes."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Any

from msgspec import Meta, to_builtins

from palinurus import __version__
from palinurus.gateway.client import load_identity
from palinurus.gateway.context import MethodContext
from palinurus.gateway.rpc import ADMIN, READ, GatewayMethod, MethodCall, MethodParams, NoParams
from palinurus.gateway.views import SessionSnapshot
from palinurus.gateway.ws.device import encode_base64url
from palinurus.services.audit import LOOKED_AT, list_findings
from palinurus.services.containment import describe_containment


class HealthParams(MethodParams, frozen=True):
    probe: bool = False
    include_sensitive: bool = False


async def get_health(call: MethodCall, params: HealthParams) -> Any:
    """The snapshot; with `probe` a new one."""
    return await call.gateway.health(fresh=params.probe)


async def get_presence(call: MethodCall, params: NoParams) -> Any:
    """Everyone present."""
    return call.gateway.presence()


RECENT = 10
LINES, BYTES = 500, 250_000  # of a log, if nobody says
LOG = os.path.join("logs", "gateway.log")


class SystemStatusParams(MethodParams, frozen=True):
    include_channel_summary: bool | None = None


class LogTailParams(MethodParams, frozen=True):
    cursor: Annotated[int, Meta(ge=0)] | None = None
    limit: Annotated[int, Meta(ge=1, le=5000)] = LINES
    max_bytes: Annotated[int, Meta(ge=1, le=1_000_000)] = BYTES


async def get_status(call: MethodCall, asked: SystemStatusParams) -> dict[str, Any]:
    """One look at everything. Where files are is told to admins only."""
    here = call.context
    settings, now = here.program.settings, here.program.clock.now()
    every = await here.reader.load_all()
    agent = settings.agents[settings.default_agent]
    defaults = here.reader.defaults(agent)
    beating = here.program.schedules.heartbeats() if here.program.schedules else {}
    none = {"enabled": False, "every": "off", "everyMs": None}
    beats = [{"agentId": ident, **beating.get(ident, none)} for ident in settings.agents]
    commands = here.program.processes.all() if here.program.processes is not None else ()
    running = sum(row.status == "running" for row in commands)
    return {
        "runtimeVersion": __version__,
        "heartbeat": {"defaultAgentId": settings.default_agent, "agents": beats},
        "channelSummary": [f"{name}: configured" for name in sorted(settings.channels)],
        "queuedSystemEvents": here.program.schedules.waiting() if here.program.schedules else [],
        "tasks": {"total": len(commands), "active": running, "terminal": len(commands) - running},
        "sessions": {
            "paths": [os.path.join(settings.home, "state.db")] if call.client.may(ADMIN) else [],
            "count": len(every),
            "defaults": {"model": defaults["model"], "contextTokens": defaults["contextTokens"]},
            "recent": [_line(here, seen, now) for seen in every[:RECENT]],
            "byAgent": [
                {"agentId": ident, "count": len(own), "recent": [_line(here, seen, now) for seen in own[:RECENT]]}
                for ident in settings.agents
                for own in ([seen for seen in every if seen.key.agent == ident],)
            ],
        },
    }


def _line(here: MethodContext, seen: SessionSnapshot, now: int) -> dict[str, Any]:
    row = here.reader.row(seen)
    window, used = row.get("contextTokens") or 0, row.get("totalTokens")
    updated = row.get("updatedAt") or 0
    names = ("key", "kind", "sessionId", "updatedAt", "model", "contextTokens", "totalTokens", "thinkingLevel")
    line = {name: row[name] for name in names if row.get(name) is not None}
    if used is not None and window:
        line |= {"remainingTokens": max(0, window - used), "percentUsed": min(999, round(100 * used / window))}
    return {"agentId": seen.key.agent, **line, "age": max(0, now - updated), "flags": []}


async def tail_log(call: MethodCall, asked: LogTailParams) -> dict[str, Any]:
    """The end of the gateway's log, or what came since `cursor`."""
    settings = call.program.settings
    path = settings.logging.file or os.path.join(settings.home, LOG)
    return await asyncio.to_thread(_tail, path, asked)


def _tail(path: str, asked: LogTailParams) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            reset = asked.cursor is not None and asked.cursor > size  # the file was begun anew
            start = asked.cursor if asked.cursor is not None and not reset else max(0, size - asked.max_bytes)
            cut = size - start > asked.max_bytes
            start = max(start, size - asked.max_bytes)
            file.seek(max(0, start - 1))
            whole = start == 0 or file.read(1) == b"\n"
            file.seek(start)
            data = file.read(size - start)
    except OSError:
        return {"file": path, "cursor": 0, "size": 0, "lines": [], "truncated": False, "reset": False}
    if not whole:  # begins in the middle of a line
        data = data.partition(b"\n")[2]
    done, _, rest = data.rpartition(b"\n")
    lines = done.decode("utf-8", "replace").split("\n") if done else []
    # A line that is still being written is told with the next call.
    cursor = size - len(rest)
    truncated = cut or len(lines) > asked.limit
    kept = lines[-asked.limit :]
    return {"file": path, "cursor": cursor, "size": size, "lines": kept, "truncated": truncated, "reset": reset}


async def audit_security(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """What `pal security audit` lists, and what is not held of the commands of each agent, worst first."""
    settings = call.program.settings
    found = await asyncio.to_thread(list_findings, settings)
    held = [(one.id, await asyncio.to_thread(describe_containment, one)) for one in settings.agents.values()]
    return {
        "ok": not found,
        "rows": LOOKED_AT,
        "findings": [to_builtins(one) for one in found],
        "commands": [{"agentId": agent, **to_builtins(one)} for agent, one in held],
    }


async def get_gateway_identity(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """Who this gateway is."""
    own = await asyncio.to_thread(load_identity, call.program.settings.home)
    return {"deviceId": own.id, "publicKey": encode_base64url(own.public)}


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("health", READ, HealthParams, get_health),
    GatewayMethod("system-presence", READ, NoParams, get_presence),
    GatewayMethod("status", READ, SystemStatusParams, get_status),
    GatewayMethod("logs.tail", READ, LogTailParams, tail_log),
    GatewayMethod("security.audit", ADMIN, NoParams, audit_security),
    GatewayMethod("gateway.identity.get", READ, NoParams, get_gateway_identity),
)
