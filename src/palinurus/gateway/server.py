"""The HTTP server: one table of routes around the program. Every request passes the gate before it is routed,
and its caller is known before its body is read.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import unquote

from aiohttp import web

from palinurus.clock import Clock
from palinurus.core.types.keys import session_key
from palinurus.errors import GatewayUnreachable
from palinurus.gateway import limits, page, reply
from palinurus.gateway.auth import Caller, Gate, Knock, Scope
from palinurus.gateway.chat import Waits, complete
from palinurus.gateway.fault import Fault, bad
from palinurus.gateway.openai import models
from palinurus.gateway.port import Host

log = logging.getLogger(__name__)


class Visit(NamedTuple):
    """One request on its way to a handler. `caller` is None only on routes that need no scope."""

    request: web.BaseRequest
    match: re.Match[str]
    caller: Caller | None


Answer = web.StreamResponse | Fault


class Route(NamedTuple):
    """A row of the table. `scope` None: open to everyone who passes the gate."""

    method: str
    pattern: re.Pattern[str]
    name: str  # what the log says; never the path itself
    scope: Scope | None
    handler: Callable[[Gateway, Visit], Awaitable[Answer]]


class _Doors(web.Server):
    """aiohttp's server, plus a budget for connections that have not asked anything yet."""

    def __init__(self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], **options: Any) -> None:
        super().__init__(handler, request_factory=self._request, access_log=None, **options)
        self._running = asyncio.get_running_loop()
        self._fresh: limits.Fresh[Any] = limits.Fresh()
        self._timers: dict[Any, asyncio.TimerHandle] = {}
        self.known: set[Any] = set()

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._timers[handler] = self._running.call_later(limits.FRESH_SECONDS, self._late, handler)
        oldest = self._fresh.add(handler)
        if oldest is not None:
            self._late(oldest)

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        self.spoke(handler)
        self.known.discard(handler)
        super().connection_lost(handler, exc)

    def spoke(self, handler: Any) -> None:
        """A whole request head has come: the connection is no longer on probation."""
        self._fresh.drop(handler)
        timer = self._timers.pop(handler, None)
        if timer is not None:
            timer.cancel()

    def _late(self, handler: Any) -> None:
        self.spoke(handler)
        handler.force_close()

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        return web.BaseRequest(message, payload, protocol, writer, task, self._running, client_max_size=limits.BODY)


class Gateway:
    """The server. `start` listens, `close` stops listening, `stop` ends what is open."""

    def __init__(self, host: Host, clock: Clock, token: str) -> None:
        """`token` is the one in force. Raises ConfigError when the auth settings protect nothing."""
        self.host = host
        self.clock = clock
        self.gate = Gate(host.settings.gateway, token, clock.monotonic)
        self.started = clock.monotonic()
        self.port = 0
        self.waits = Waits()
        self._doors: _Doors | None = None
        self._runner: web.ServerRunner | None = None
        self._site: web.TCPSite | None = None

    async def start(self, bind: str, port: int) -> int:
        """Listen; returns the port. Raises GatewayUnreachable when the address cannot be had."""
        self._doors = _Doors(
            self._handle,
            logger=log,
            keepalive_timeout=limits.IDLE_SECONDS,
            auto_decompress=False,
            lingering_time=1.0,
        )
        self._runner = web.ServerRunner(self._doors, shutdown_timeout=2.0)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, bind, port, backlog=512)
        try:
            await self._site.start()
        except (OSError, OverflowError) as exc:
            await self._runner.cleanup()
            self._site = self._runner = None
            raise _taken(bind, port, exc) from None
        self.port = next(int(address[1]) for address in self._runner.addresses)
        return self.port

    async def close(self) -> None:
        """Take no new connections; open ones go on."""
        if self._site is not None:
            await self._site.stop()
            self._site = None

    async def stop(self) -> None:
        """End open connections; requests that still wait are told that their message is kept."""
        await self.close()
        self.waits.end()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        began = self.clock.monotonic()
        assert self._doors is not None
        self._doors.spoke(request.protocol)
        route, answer = await self._answer(request)
        status = answer.status
        response = reply.refusal(answer) if isinstance(answer, Fault) else answer
        level = logging.DEBUG if route in ("health", "ready") else logging.INFO
        log.log(level, "http %s %s %d %.0f ms", request.method, route, status, 1000 * (self.clock.monotonic() - began))
        return response

    async def _answer(self, request: web.BaseRequest) -> tuple[str, Answer]:
        knock = self._knock(request)
        fault = self.gate.door(knock)
        if fault is not None:
            return "-", fault
        path = request.path
        rows = [(row, match) for row in ROUTES if (match := row.pattern.fullmatch(path))]
        if not rows:
            return "-", Fault(404, "there is nothing here", "not_found", code="not_found")
        wanted = "GET" if request.method == "HEAD" else request.method
        found = next(((row, match) for row, match in rows if row.method == wanted), None)
        if found is None:
            allow = ", ".join(row.method for row, _ in rows)
            return rows[0][0].name, Fault(405, f"use {allow}", code="method_not_allowed", headers={"Allow": allow})
        row, match = found
        caller = None
        if row.scope is not None:
            judged = self.gate.caller(knock)
            if isinstance(judged, Fault):
                return row.name, judged
            if row.scope not in judged.scopes:
                return row.name, Fault(403, f"missing scope: {row.scope}", "forbidden", code="missing_scope")
            caller = judged
            assert self._doors is not None
            self._doors.known.add(request.protocol)
        try:
            return row.name, await row.handler(self, Visit(request, match, caller))
        except ConnectionError:
            raise
        except Exception:  # task boundary: one broken request must not be more than a 500
            log.exception("http %s failed", row.name)
            return row.name, Fault(500, "internal error; the gateway's log says more", "api_error", code="internal")

    def _knock(self, request: web.BaseRequest) -> Knock:
        transport = request.transport
        own = transport.get_extra_info("sockname") if transport is not None else None
        peer = transport.get_extra_info("peername") if transport is not None else None
        headers = request.headers
        assert self._doors is not None
        return Knock(
            target=request.raw_path,
            hosts=tuple(headers.getall("Host", ())),
            origins=tuple(headers.getall("Origin", ())),
            credentials=tuple(headers.getall("Authorization", ())),
            address=str(peer[0]) if isinstance(peer, tuple) else "?",
            local=str(own[0]) if isinstance(own, tuple) else "",
            known=request.protocol in self._doors.known,
        )


def _taken(bind: str, port: int, exc: Exception) -> GatewayUnreachable:
    code = exc.errno if isinstance(exc, OSError) else None
    if code == errno.EADDRINUSE:
        error = GatewayUnreachable(
            f"port {port} on {bind} is taken by another program",
            fix=f"`pal gateway --port {port + 1 if port < 65535 else 18790}`, or set gateway.port in the config",
        )
        error.exit_code = 75
        return error
    reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    return GatewayUnreachable(f"cannot listen on {bind}:{port}: {reason}", fix="choose another --bind or --port")


# --- handlers -------------------------------------------------------------------------------------------------


async def _page(gateway: Gateway, visit: Visit) -> Answer:
    return reply.raw(page.HTML, "text/html", Content_Security_Policy=page.POLICY, X_Frame_Options="DENY")


async def _health(gateway: Gateway, visit: Visit) -> Answer:
    return reply.json({"ok": True, "status": "live"})


async def _ready(gateway: Gateway, visit: Visit) -> Answer:
    ready, failing = gateway.host.ready()
    uptime = int(1000 * (gateway.clock.monotonic() - gateway.started))
    return reply.json({"ready": ready, "failing": failing, "uptimeMs": uptime}, 200 if ready else 503)


async def _models(gateway: Gateway, visit: Visit) -> Answer:
    return reply.json({"object": "list", "data": models(gateway.host.settings)})


async def _model(gateway: Gateway, visit: Visit) -> Answer:
    wanted = unquote(visit.match["id"])
    for row in models(gateway.host.settings):
        if row["id"] == wanted:
            return reply.json(row)
    return Fault(404, f"there is no model {wanted[:64]!r}", param="model", code="model_not_found")


async def _chat(gateway: Gateway, visit: Visit) -> Answer:
    if not gateway.host.settings.gateway.chat_completions:
        return Fault(404, "chat completions are switched off (gateway.http.endpoints.chatCompletions)", "not_found")
    return await complete(visit.request, gateway.host, gateway.clock, gateway.waits)


async def _kill(gateway: Gateway, visit: Visit) -> Answer:
    key = session_key(unquote(visit.match["key"]), gateway.host.settings.default_agent)
    if key is None:
        return bad("that is not a session key", "key")
    return reply.json({"ok": True, "aborted": gateway.host.abort(str(key), "user")})


ROUTES: tuple[Route, ...] = (
    Route("GET", re.compile(r"/health|/healthz"), "health", None, _health),
    Route("GET", re.compile(r"/ready|/readyz"), "ready", None, _ready),
    Route("GET", re.compile(r"/v1/models"), "models", "read", _models),
    Route("GET", re.compile(r"/v1/models/(?P<id>.+)"), "model", "read", _model),
    Route("POST", re.compile(r"/v1/chat/completions"), "chat", "chat", _chat),
    Route("POST", re.compile(r"/sessions/(?P<key>[^/]+)/kill"), "kill", "control", _kill),
    Route("GET", re.compile(r"/"), "page", None, _page),
)
