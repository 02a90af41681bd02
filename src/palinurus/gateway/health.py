"""The health snapshot clients are shown, and who is present. Facts only; nothing is probed here."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Any

from palinurus import __version__
from palinurus.clock import Clock
from palinurus.config.heartbeat import HeartbeatSettings
from palinurus.gateway.port import GatewayHost
from palinurus.gateway.rpc import ConnectedClient
from palinurus.store.port import SessionRow

RECENT = 5
QUIET = frozenset({"cli", "probe", "backend"})  # modes of clients that come and go: not shown as present


async def make_health_snapshot(host: GatewayHost, clock: Clock) -> dict[str, Any]:
    """The object of method and event `health`."""
    began, now = clock.monotonic(), clock.now()
    settings = host.settings
    ready, failing = host.ready()
    rows = await host.store.sessions()
    agents = [
        {
            "agentId": ident,
            "name": agent.name,
            "isDefault": ident == settings.default_agent,
            "heartbeat": _beat(settings.heartbeats.get(ident)),
            "sessions": _sessions([row for row in rows if row.agent == ident], now),
        }
        for ident, agent in settings.agents.items()
    ]
    return {
        "ok": ready,
        "ts": now,
        "durationMs": int(1000 * (clock.monotonic() - began)),
        "failing": failing,
        "modelPricing": {"state": "ok", "sources": []},
        "channels": {name: {"configured": True} for name in settings.channels},
        "channelOrder": sorted(settings.channels),
        "channelLabels": {name: name.capitalize() for name in settings.channels},
        "heartbeatSeconds": int(beat.every) if (beat := settings.heartbeats.get(settings.default_agent)) else 0,
        "defaultAgentId": settings.default_agent,
        "agents": agents,
        "sessions": _sessions(rows, now),
    }


def _beat(beat: HeartbeatSettings | None) -> dict[str, Any]:
    if beat is None:
        return {"enabled": False, "every": "off", "everyMs": None}
    every = {"enabled": True, "every": f"{beat.every / 60:g}m", "everyMs": int(beat.every * 1000)}
    return {**every, "target": beat.target, "ackMaxChars": beat.ack_chars}


def _sessions(rows: list[SessionRow], now: int) -> dict[str, Any]:
    recent = [{"key": row.key, "updatedAt": row.updated, "age": max(0, now - row.updated)} for row in rows[:RECENT]]
    return {"count": len(rows), "recent": recent}


def list_presence(clients: Iterable[ConnectedClient], now: int) -> list[dict[str, Any]]:
    """PresenceEntry objects: this gateway first, then the clients people sit at."""
    own = {"ts": now, "host": socket.gethostname(), "version": __version__, "mode": "gateway", "reason": "self"}
    return [own, *(_entry(client) for client in clients if client.info.mode not in QUIET)]


def _entry(client: ConnectedClient) -> dict[str, Any]:
    info = client.info
    entry = {
        "ts": client.at,
        "host": info.display_name or info.id,
        "ip": client.address,
        "version": info.version,
        "platform": info.platform,
        "deviceFamily": info.device_family,
        "modelIdentifier": info.model_identifier,
        "mode": info.mode,
        "reason": "connect",
        "deviceId": client.device,
        "roles": [client.role],
        "scopes": sorted(client.scopes),
        "instanceId": info.instance_id,
    }
    return {key: value for key, value in entry.items() if value}
