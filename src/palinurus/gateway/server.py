"""The HTTP server around the program. Every request passes the gate before it is routed (`routes.py`), and its caller
is known before its body is read.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import secrets
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from aiohttp.web_exceptions import HTTPException
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse
from aiohttp.web_server import Server

from palinurus import late
from palinurus.clock import Clock
from palinurus.core.types.caller import NOBODY
from palinurus.gateway import http, limits
from palinurus.gateway.auth import GatewayAuth, GatewayPeer
from palinurus.gateway.clients import GatewayClients
from palinurus.gateway.health import GatewayMetrics
from palinurus.gateway.http import HttpFault, RouteRequest
from palinurus.gateway.listener import OTHER_LOOPBACK, ConnectionListener, bind_sockets, explain_bind_failure
from palinurus.gateway.page import WebPage
from palinurus.gateway.port import GatewayHost
from palinurus.gateway.routes import RouteAnswer, find_routes, is_page_place
from palinurus.gateway.tls import load_certificate
from palinurus.gateway.token import PROVE_HEADER, make_gateway_proof
from palinurus.gateway.webhooks import ChannelEndpoint, WebhookEndpoint, to_local_path

if TYPE_CHECKING:  # loaded with the first request (`late`)
    from palinurus.gateway.mcp.session import McpSessions
    from palinurus.gateway.openai.endpoints import OutcomeWaits

log = logging.getLogger(__name__)

MISPLACED = ("/chat/completions", "/responses", "/embeddings")  # where clients ask whose base URL has no /v1
ENDING = 2.0  # seconds that open requests get at the end


class _Wire(RequestHandler):
    """A connection that counts what a WebSocket client sends before it has logged in, and hears out who is refused."""

    __slots__ = ("budget", "over", "refused")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.budget: int | None = None
        self.over: Callable[[], None] = self.force_close
        self.refused: asyncio.Future[None] | None = None  # done when a client whose bytes are no request has gone

    def data_received(self, data: bytes) -> None:
        """Bytes beyond the budget are never parsed, so they cannot pile up."""
        if self.refused is not None:
            return
        if self.budget is not None:
            self.budget -= len(data)
            if self.budget < 0:
                self.over()
                return
        super().data_received(data)

    async def finish_response(self, request: BaseRequest, *args: Any) -> tuple[StreamResponse, bool]:
        """Closing on what was not read yet would take the answer away from who still sends."""
        done = await super().finish_response(request, *args)
        if self.refused is not None and self.transport is not None:
            if self.transport.can_write_eof():
                self.transport.write_eof()
            await asyncio.wait({self.refused}, timeout=self._lingering_time)
        return done

    def handle_error(
        self, request: BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> StreamResponse:
        """For bytes that are no request: a refusal like any other, and a line without anything of theirs. Somebody who
        has gone is no error."""
        if isinstance(exc, ConnectionError):
            raise exc
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        log.info("http - - %d: %s", status, type(exc).__name__)
        self.refused = asyncio.get_running_loop().create_future()
        why = (message or "").partition(":")[0][:80]  # after it stands what was sent
        return http.reply_fault(HttpFault(status, f"not HTTP as it is spoken here: {why}", code="bad_http", close=True))


class _Doors(Server):
    """aiohttp's server, plus a budget for connections that have not asked anything yet."""

    def __init__(self, handler: Callable[[BaseRequest], Awaitable[StreamResponse]], **options: Any) -> None:
        super().__init__(handler, request_factory=self._request, access_log=None, **options)
        self._running = asyncio.get_running_loop()
        self._fresh: limits.FreshConnections[Any] = limits.FreshConnections()
        self._timers: dict[Any, asyncio.TimerHandle] = {}
        self.known: set[Any] = set()

    def __call__(self) -> RequestHandler:
        return _Wire(self, loop=self._running, **self._kwargs)

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._timers[handler] = self._running.call_later(limits.FRESH_SECONDS, self._late, handler)
        oldest = self._fresh.add(handler)
        if oldest is not None:
            self._late(oldest)

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        self.spoke(handler)
        self.known.discard(handler)
        if handler.refused is not None and not handler.refused.done():
            handler.refused.set_result(None)
        super().connection_lost(handler, exc)

    def count_fresh(self) -> int:
        """Connections on probation."""
        return len(self._fresh)

    def spoke(self, handler: Any) -> None:
        """A whole request head has come: the connection is no longer on probation."""
        self._fresh.drop(handler)
        timer = self._timers.pop(handler, None)
        if timer is not None:
            timer.cancel()

    def _late(self, handler: Any) -> None:
        self.spoke(handler)
        handler.force_close()

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> BaseRequest:
        return BaseRequest(message, payload, protocol, writer, task, self._running, client_max_size=limits.BODY)


class GatewayServer:
    """The server. `start` listens, `close` stops listening, `stop` ends what is open."""

    def __init__(self, host: GatewayHost, clock: Clock, token: str) -> None:
        """`token` is the one in force. Raises ConfigError when the auth settings protect nothing."""
        self.host = host
        self.clock = clock
        self.auth = GatewayAuth(host.settings.gateway, token, clock.monotonic)
        self._started = clock.monotonic()
        self.port = 0
        self.proof_key = secrets.token_hex(32)  # in gateway.json, for who may read that
        self.fingerprint = ""  # of its certificate; "": plain HTTP
        self._waits: OutcomeWaits | None = None
        self.mcp: McpSessions | None = None  # clients of our MCP server, from the first on
        self._stopping = False
        self.page: WebPage = WebPage(base=host.settings.gateway.page_base, look=host.settings.gateway.look)
        self.metrics = GatewayMetrics()
        self.posts: WebhookEndpoint = WebhookEndpoint(clock.monotonic)
        self.calls = ChannelEndpoint(clock.monotonic)
        self._unfollow: Callable[[], None] = lambda: None
        self.clients = GatewayClients(host, clock, self.auth)
        self._doors: _Doors | None = None
        self._listeners: list[ConnectionListener] = []

    @property
    def uptime(self) -> float:
        """Seconds since it was made."""
        return self.clock.monotonic() - self._started

    async def start(self, bind: str, port: int) -> int:
        """Listen; returns the port. Raises GatewayUnreachable (not to be had), ConfigError (bad certificates)."""
        settings = self.host.settings
        served = await asyncio.to_thread(load_certificate, settings) if settings.gateway.tls.enabled else None
        self.fingerprint = served.fingerprint if served else ""
        logging.getLogger("aiohttp.websocket").setLevel(logging.ERROR)  # it tells what clients call their protocols
        await self.clients.start()
        self._unfollow = self.host.follow(self.metrics)
        self._doors = _Doors(
            self._handle, logger=log, keepalive_timeout=limits.IDLE_SECONDS, auto_decompress=False, lingering_time=1.0
        )
        context = served.context if served else None
        self.port = await self._listen(bind, port, context)
        # Both, so that nobody else can be `localhost` at our port: a page there would be of our origin.
        for other in OTHER_LOOPBACK.get(bind, ()):
            await self._listen(other, self.port, context, chosen=port != 0)
        return self.port

    async def _listen(self, bind: str, port: int, context: ssl.SSLContext | None, *, chosen: bool = True) -> int:
        """`chosen`: it is meant to be this very port, so somebody else on it is an error."""
        assert self._doors is not None
        made: ConnectionListener | None = None
        try:
            sockets = await bind_sockets(bind, port)
            seconds = limits.FRESH_SECONDS  # a TLS handshake is as dear as a silent client
            made = ConnectionListener(sockets, self._doors, self._count_unknown, context, handshake=seconds)
            made.start()
        except (OSError, OverflowError) as exc:
            if made is not None:
                made.close()
            code = exc.errno if isinstance(exc, OSError) else 0
            if self._listeners and (not chosen or code != errno.EADDRINUSE):
                return port  # this machine has no such loopback
            await self.close()
            raise explain_bind_failure(bind, port, exc) from None
        self._listeners.append(made)
        return int(sockets[0].getsockname()[1])

    def _count_unknown(self) -> int:
        """Connections that have not sent a request, or not logged in."""
        assert self._doors is not None
        return self._doors.count_fresh() + self.clients.count_strangers()

    async def close(self) -> None:
        """Take no new connections; open ones go on."""
        while self._listeners:
            self._listeners.pop().close()

    async def stop(self) -> None:
        """End open connections; requests that still wait are told that their message is kept."""
        await self.close()
        self._stopping = True
        if self._waits is not None:
            self._waits.end()
        if self.mcp is not None:
            self.mcp.close()
        self._unfollow()
        await self.clients.stop()
        if self._doors is not None:
            await self.clock.sleep(0)  # a request that has just come is begun, not cut off as idle
            self._doors.pre_shutdown()
            await self._doors.shutdown(ENDING)

    def complete(self, visit: RouteRequest, dialect: str) -> Awaitable[RouteAnswer]:
        """A turn, asked for and answered in one of the dialects of `openai/endpoints.py`."""
        endpoints = late.load_part("completions")
        if self._waits is None:
            self._waits = endpoints.OutcomeWaits(self._stopping)
        handle: Callable[..., Awaitable[RouteAnswer]] = endpoints.handle_completion
        return handle(visit, self.clock, self._waits, getattr(endpoints, dialect))

    async def _handle(self, request: BaseRequest) -> StreamResponse:
        began = self.clock.monotonic()
        assert self._doors is not None
        self._doors.spoke(request.protocol)
        route, answer = await self._answer(request)
        status = answer.status
        self.metrics.request(route, status)
        response = http.reply_fault(answer) if isinstance(answer, HttpFault) else answer
        if (told := self.host.settings.gateway.transport_security) and not response.prepared:
            response.headers["Strict-Transport-Security"] = told
        level = logging.DEBUG if route in ("health", "ready") else logging.INFO
        log.log(level, "http %s %s %d %.0f ms", request.method, route, status, 1000 * (self.clock.monotonic() - began))
        return response

    async def _answer(self, request: BaseRequest) -> tuple[str, RouteAnswer]:
        peer = self._peer(request)
        fault = self.auth.check_request(peer)
        if fault is not None:
            return "-", fault
        path = to_local_path(request.path, self.host.settings.webhooks)
        if request.headers.get("Upgrade", "").lower() == "websocket" and not path.startswith("/v1/"):
            return "ws", await self._socket(request, peer)
        rows = find_routes(path, self.host.settings.gateway)
        wanted = "GET" if request.method == "HEAD" else request.method
        found = next(((row, match) for row, match in rows if row.method == wanted), None)
        if found is None and (path.startswith("/v1/") or path in MISPLACED):
            return "-", late.load_part("models").refuse_unserved(path, [row.method for row, _ in rows])
        if not rows:
            lost = await self.page.answer_lost(request) if is_page_place(path, self.host.settings.gateway) else None
            if lost is not None:
                return "-", lost
            return "-", HttpFault(404, "there is nothing here", "not_found", code="not_found")
        if found is None:
            allow = ", ".join(row.method for row, _ in rows)
            return rows[0][0].name, HttpFault(405, f"use {allow}", code="method_not_allowed", headers={"Allow": allow})
        row, match = found
        caller = NOBODY
        if row.scope is not None:
            judged = self.auth.identify_caller(peer)
            if isinstance(judged, HttpFault):
                return row.name, judged
            caller = judged
            if refused := caller.explain_refusal(row.scope):
                return row.name, HttpFault(403, refused, "forbidden", code="missing_scope")
            assert self._doors is not None
            self._doors.known.add(request.protocol)
        try:
            made = row.handler(RouteRequest(request, match, self, peer.address, caller=caller))
            return row.name, await made if isinstance(made, Awaitable) else made
        except ConnectionError:
            raise
        except Exception:  # task boundary: one broken request must not be more than a 500
            log.exception("http %s failed", row.name)
            return row.name, HttpFault(500, "internal error; the gateway's log says more", "api_error", code="internal")

    async def _socket(self, request: BaseRequest, peer: GatewayPeer) -> RouteAnswer:
        try:
            if request.method == "GET" and request.headers.get("Sec-WebSocket-Key", "").isascii():
                return await self.clients.serve(request, peer)
        except HTTPException:
            pass
        text = "not a WebSocket handshake: GET, Connection: Upgrade, Sec-WebSocket-Version: 13, a Sec-WebSocket-Key"
        return HttpFault(400, text, code="bad_handshake", close=True)

    def _peer(self, request: BaseRequest) -> GatewayPeer:
        transport = request.transport
        own = transport.get_extra_info("sockname") if transport is not None else None
        remote = transport.get_extra_info("peername") if transport is not None else None
        headers = request.headers
        assert self._doors is not None
        return GatewayPeer(
            target=request.raw_path,
            hosts=tuple(headers.getall("Host", ())),
            origins=tuple(headers.getall("Origin", ())),
            credentials=tuple(headers.getall("Authorization", ())),
            address=str(remote[0]) if isinstance(remote, tuple) else "?",
            local=str(own[0]) if isinstance(own, tuple) else "",
            known=request.protocol in self._doors.known,
            headers=headers,
            proof=self.prove(request),
        )

    def prove(self, request: BaseRequest) -> str:
        """That this is the gateway whose file the caller read, for the nonce it sent; "" if it sent none."""
        own = request.transport.get_extra_info("sockname") if request.transport is not None else None
        return make_gateway_proof(self.proof_key, request.headers.get(PROVE_HEADER, ""), own)
