"""The health snapshot clients are shown, who is present, and what happened since the start, counted, as the text that
Prometheus reads. Facts only; nothing is probed here.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from palinurus import __version__
from palinurus.clock import Clock
from palinurus.config.sections.schedule import HeartbeatSettings
from palinurus.core.types.events import AgentEnd, AgentStart, RunEvent, ToolEnd
from palinurus.core.types.inbound import Inbound
from palinurus.errors import StateError
from palinurus.gateway.port import GatewayHost
from palinurus.gateway.rpc import ConnectedClient
from palinurus.store.port import SessionRow

if TYPE_CHECKING:
    from palinurus.store.fleet import FleetPort

NAMES = 200  # values of one label; what comes later is counted as "other"


class GatewayMetrics:
    """Implements `inbox.feed.RunFollower`. Counters only grow; labels are names of ours, never what people wrote."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, ...]] = Counter()
        self._messages: Counter[tuple[str, ...]] = Counter()
        self._runs: Counter[tuple[str, ...]] = Counter()
        self._tools: Counter[tuple[str, ...]] = Counter()
        self._tool_seconds: Counter[tuple[str, ...]] = Counter()
        self._tokens: Counter[tuple[str, ...]] = Counter()
        self._cost = 0.0
        self._going: set[str] = set()

    def request(self, route: str, status: int) -> None:
        """One HTTP request was answered."""
        self._requests[route, str(status)] += 1

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        self._messages[(_known(inbound.target.channel, self._messages),)] += 1

    def on_started(self, item: str, session: str, inbound: Inbound) -> None:
        self._going.add(item)

    def on_event(self, item: str, event: RunEvent) -> None:
        if isinstance(event, AgentStart):
            self._going.add(item)
        elif isinstance(event, ToolEnd):
            name = event.name if (event.name,) in self._tool_seconds else _known(event.name, self._tool_seconds)
            self._tools[name, "error" if event.is_error else "ok"] += 1
            self._tool_seconds[(name,)] += event.took_ms
        elif isinstance(event, AgentEnd):
            self._runs[(event.end,)] += 1
            used = event.usage
            counts = {"input": used.input, "output": used.output}
            for kind, count in (counts | {"cache_read": used.cacheRead, "cache_write": used.cacheWrite}).items():
                self._tokens[(kind,)] += count
            self._cost += used.cost.total if used.cost is not None else 0.0

    def on_ended(self, item: str, into: str = "") -> None:
        """Over, or taken into another's run."""
        self._going.discard(item)

    on_merged = on_ended

    def text(self, uptime: float, clients: int, ready: bool, fleet: Iterable[str] = ()) -> bytes:
        """All of it, in Prometheus' exposition format; `fleet`: lines about the nodes that share the state."""
        lines: list[str] = []
        _gauge(lines, "info", "Version of the program", 1, labels={"version": __version__})
        _gauge(lines, "up", "Whether messages are taken", int(ready))
        _gauge(lines, "uptime_seconds", "Since the gateway started", round(uptime, 3))
        _gauge(lines, "connected_clients", "WebSocket clients logged in", clients)
        _gauge(lines, "runs_in_progress", "Messages whose turn runs now", len(self._going))
        _gauge(lines, "resident_memory_bytes", "Resident memory of this process", _resident())
        _gauge(lines, "cpu_seconds_total", "Processor time of this process", round(_spent(), 3), kind="counter")
        _count(lines, "http_requests_total", "HTTP requests answered", ("route", "status"), counted=self._requests)
        _count(lines, "messages_total", "Messages taken in", ("channel",), counted=self._messages)
        _count(lines, "runs_total", "Runs ended, by how", ("end",), counted=self._runs)
        _count(lines, "tool_calls_total", "Tool calls ended", ("tool", "outcome"), counted=self._tools)
        seconds = {labels: ms / 1000 for labels, ms in self._tool_seconds.items()}
        _count(lines, "tool_seconds_total", "Time spent in tools", ("tool",), counted=seconds)
        _count(lines, "tokens_total", "Tokens of model calls", ("kind",), counted=self._tokens)
        _gauge(lines, "cost_usd_total", "Cost of model calls with a price", round(self._cost, 6), kind="counter")
        lines += fleet
        return ("\n".join(lines) + "\n").encode()


async def list_fleet_metrics(fleet: FleetPort, now: float) -> list[str]:
    """Lines for Prometheus; `now` is the monotonic time. What the database does not say now is left out."""
    lines: list[str] = []
    seen = fleet.figures
    _count(
        lines, "stale_total", "Changes refused as stale", ("kind",), counted={(k,): n for k, n in seen.stale.items()}
    )
    age = round(now - seen.renewed, 3)
    _gauge(lines, "fleet_lease_age_seconds", "Since this node last renewed its lease", age)
    _gauge(lines, "fleet_batches_total", "Batches of changes sent", seen.batches, kind="counter")
    _gauge(lines, "fleet_changes_total", "Changes in these batches", seen.changes, kind="counter")
    _gauge(lines, "fleet_batch_seconds_total", "Time they took", round(seen.seconds, 3), kind="counter")
    _gauge(lines, "fleet_news_total", "Batches of news of other nodes", seen.news, kind="counter")
    with contextlib.suppress(StateError):
        report = await fleet.report()
        _gauge(lines, "fleet_nodes", "Nodes whose lease runs", sum(node.left > 0 for node in report.nodes))
        _gauge(lines, "fleet_waiting", "Messages that wait", report.waiting)
        _gauge(lines, "fleet_oldest_seconds", "How long the oldest has", round(report.oldest, 3))
    return lines


def _known(name: str, counted: Mapping[tuple[str, ...], float]) -> str:
    return name if (name,) in counted or len(counted) < NAMES else "other"


def _gauge(
    lines: list[str], name: str, told: str, value: float, labels: Mapping[str, str] | None = None, kind: str = "gauge"
) -> None:
    full = f"palinurus_{name}"
    lines += [f"# HELP {full} {told}.", f"# TYPE {full} {kind}", f"{full}{_labels((labels or {}).items())} {value}"]


def _count(
    lines: list[str], name: str, told: str, names: tuple[str, ...], counted: Mapping[tuple[str, ...], float]
) -> None:
    full = f"palinurus_{name}"
    lines += [f"# HELP {full} {told}.", f"# TYPE {full} counter"]
    lines += [f"{full}{_labels(zip(names, values, strict=True))} {count}" for values, count in sorted(counted.items())]


def _labels(pairs: Iterable[tuple[str, str]]) -> str:
    shown = ",".join(f'{name}="{_quoted(value)}"' for name, value in pairs)
    return f"{{{shown}}}" if shown else ""


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _resident() -> int:
    try:
        with open("/proc/self/statm", "rb") as handle:
            return int(handle.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


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
        "host": client.label,
        "ip": client.caller.address,
        "version": info.version,
        "platform": info.platform,
        "deviceFamily": info.device_family,
        "modelIdentifier": info.model_identifier,
        "mode": info.mode,
        "reason": "connect",
        "deviceId": client.caller.device,
        "roles": [client.caller.role],
        "scopes": sorted(client.caller.scopes),
        "instanceId": info.instance_id,
    }
    return {key: value for key, value in entry.items() if value}
