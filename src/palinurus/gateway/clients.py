"""All clients: what methods see of the gateway, and what connections need.

Holds who is connected, what they are told, presence, health and the beat. Nothing here is durable but the pairing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse
from msgspec.structs import replace

from palinurus import __version__, late
from palinurus.clock import Clock
from palinurus.config import paths
from palinurus.config.settings import Settings
from palinurus.core.window import SlidingWindow
from palinurus.errors import PalinurusError
from palinurus.gateway import context, limits
from palinurus.gateway.auth import GatewayAuth, GatewayPeer
from palinurus.gateway.context import MethodContext
from palinurus.gateway.health import list_presence, make_health_snapshot
from palinurus.gateway.pairing import DEVICE, PHONE, REQUEST, DevicePairing
from palinurus.gateway.port import GatewayHost
from palinurus.gateway.rpc import ADMIN, EVENTS, NODE, ConnectedClient, GatewayMethod, MethodError
from palinurus.gateway.token import PROVE_AS_HEADER, PROVE_HEADER, make_gateway_proof
from palinurus.gateway.ws import frames
from palinurus.gateway.ws.hub import REVOKED, ClientHub, HubMember
from palinurus.store.news import StoreNews
from palinurus.tasks import TaskSet

if TYPE_CHECKING:  # loaded with the first client (`late`)
    from aiohttp.web_ws import WebSocketResponse

    from palinurus.gateway.manage.push import PushNotices
    from palinurus.gateway.ws.connection import ClientConnection
    from palinurus.gateway.ws.handshake import ClientLogin
    from palinurus.services.nodes.board import NodeBoard

log = logging.getLogger(__name__)

PING = 25.0
HEALTH_BEATS = 2  # ticks between two health events
SOON = 0.1  # seconds in which changes of presence are gathered
RESTART = 1012


class GatewayClients(ClientHub):
    """Everyone who is connected. `pairing` is there from `start` on, when the store is open."""

    pairing: DevicePairing

    def __init__(self, host: GatewayHost, clock: Clock, auth: GatewayAuth) -> None:
        super().__init__(clock.monotonic)
        self.host = host
        self.clock = clock
        self.auth = auth
        self.context: MethodContext | None = None  # what methods about sessions and runs work with
        self.pace = SlidingWindow(limits.WRITES, limits.WINDOW, limits.ADDRESSES)  # changes of the control plane
        self.tasks = TaskSet("a request")  # those under way, whoever asked
        self.buffered = frames.BUFFERED  # bytes that may wait for one client
        self._started = clock.monotonic()
        self._open: set[ClientConnection] = set()
        self._strangers: limits.FreshConnections[ClientConnection] = limits.FreshConnections(limits.STRANGERS)
        self._versions = {"presence": 1, "health": 1}
        self._health: dict[str, Any] = {}
        self._beating: asyncio.Task[None] | None = None
        self._stirred = False
        self._ended = False
        self._unfollow: list[Callable[[], None]] = []
        self._listening = False  # from the first client on
        self._notices: PushNotices | None = None  # from the first device on that wants to be notified

    async def start(self) -> None:
        """Read who is paired, begin to beat."""
        self.pairing = DevicePairing(self.host.store, self.clock, self.broadcast, self._revoked)
        await self.pairing.load()
        self._unfollow.append(self.host.store.watch(self._heard))
        self.auth.holder = self.pairing.holder
        if self.host.program is not None:
            self.context = context.make_context(self, self.host.program)
            self._unfollow.append(self.host.follow(self.context.broadcaster, lambda: bool(self.members())))
        if any(device.push is not None for device in self.pairing.devices()):
            self.open_push()
        await self.health(fresh=True)
        self._beating = asyncio.get_running_loop().create_task(self._beat())

    async def stop(self, reason: str = "gateway stopping", again_ms: int | None = None) -> None:
        """Tell everyone, close everyone, wait until they are gone."""
        self._ended = True
        if self._beating is not None:
            self._beating.cancel()
        for unfollow in self._unfollow:
            unfollow()
        if self.context is not None:
            self.context.broadcaster.close()
        self.broadcast("shutdown", {"reason": reason, "restartExpectedMs": again_ms})
        self.tasks.cancel()
        for connection in tuple(self._open):
            connection.close(RESTART, "service restart", flush=True)

    def _heard(self, news: StoreNews) -> None:
        """Another node has changed who may connect."""
        if news.what == "record" and news.key == DEVICE:
            self.tasks.start(self.pairing.reread(news.detail))
        elif news.what == "record" and news.key == REQUEST:
            self.tasks.start(self.pairing.reread_request(news.detail))

    async def serve(self, request: BaseRequest, peer: GatewayPeer) -> StreamResponse:
        """One WebSocket, from upgrade to end. Raises aiohttp's HTTPException for an upgrade that is none."""
        ws: WebSocketResponse = late.load_part("websocket")(
            heartbeat=PING, compress=False, max_msg_size=frames.FRAME, timeout=1.0, decode_text=False
        )
        await ws.prepare(request)
        transport = request.transport
        if transport is None or self._ended:
            return ws
        self._listen()
        if PROVE_AS_HEADER in request.headers:
            peer = replace(peer, proof=await self._prove(request, transport))
        connection: ClientConnection = late.load_part("connection")(self, ws, transport, request.protocol)
        self._open.add(connection)
        oldest = self._strangers.add(connection)
        if oldest is not None:
            oldest.close(1008, "too many connections wait for a login")
        try:
            await connection.run(peer)
        except ConnectionError:
            pass  # it went while it was answered
        except Exception:  # task boundary: one broken connection must not be more than that
            log.exception("ws %s failed", connection.conn[:8])
        finally:
            self._strangers.drop(connection)
            self._open.discard(connection)
        return ws

    async def _prove(self, request: BaseRequest, transport: asyncio.Transport) -> str:
        """That we know what a node holds, before it shows it to us; "" if we do not."""
        what = request.headers[PROVE_AS_HEADER]
        try:
            key = self.auth.proof_key if what == "token" else (await self.open_nodes()).pairing.find_proof_key(what)
        except (MethodError, PalinurusError):
            return ""
        return make_gateway_proof(key, request.headers.get(PROVE_HEADER, ""), transport.get_extra_info("sockname"))

    async def open_nodes(self) -> NodeBoard:
        """Who is paired as a node. Raises StateError kinds, MethodError where there is no program behind this."""
        program = self.host.program
        if program is None or program.nodes is None:
            raise MethodError("role node is not supported by this gateway", details={"code": "AUTH_UNAUTHORIZED"})
        board = await program.nodes.open()
        board.attach(self)
        return board

    @property
    def _nodes(self) -> NodeBoard | None:
        """Without loading it."""
        program = self.host.program
        return program.nodes.board if program is not None and program.nodes is not None else None

    def open_push(self) -> PushNotices:
        """Who notifies browsers that are not looking."""
        if self._notices is None:
            self._notices = late.load_part("push")(self)
            self._unfollow += [self._notices.unfollow, self._notices.tasks.cancel]
        return self._notices

    async def look_again(self, device: str) -> None:
        """Beside other nodes: what one of them took from a device a moment ago is known before it comes in."""
        if self.host.store.node:
            await self.pairing.reread(device)

    def count_taken(self) -> int:
        """Goes up whenever a device or a node loses something."""
        return self.pairing.taken + (self._nodes.pairing.taken if self._nodes is not None else 0)

    def count_strangers(self) -> int:
        """Connections that have not logged in."""
        return len(self._strangers)

    # --- what connections need --------------------------------------------------------------------------------------

    def startup_error(self) -> MethodError | None:
        """Why nobody can come in yet, if so."""
        if "starting" not in self.host.ready()[1]:
            return None
        return MethodError(
            "gateway starting; retry shortly",
            code="UNAVAILABLE",
            details={"reason": "startup-sidecars"},
            retryable=True,
            retry_after_ms=500,
        )

    def add_client(
        self, member: HubMember, login: ClientLogin, token: str, hello: Callable[[dict[str, Any]], None]
    ) -> None:
        """It is a client now: hello-ok, what it missed, and the others hear of it."""
        self._strangers.drop(cast("ClientConnection", member))
        resume = login.params.resume
        missed = self.join(member, resume)
        auth: dict[str, Any] = {"role": member.client.caller.role, "scopes": list(login.scopes)}
        if token:
            auth |= {"deviceToken": token, "issuedAtMs": self.clock.now()}
        if login.handover:
            more = {"role": "operator", "scopes": list(PHONE), "issuedAtMs": self.clock.now()}
            auth["deviceTokens"] = [{"deviceToken": login.handover, **more}]
        payload = self._hello(member.client) | {"auth": auth}
        if login.node is not None and self._nodes is not None:
            self._nodes.join(member.conn, login.node, member.client.at, address=member.client.caller.address)
        if "resume" in member.client.caps:
            told = {"epoch": self.epoch, "pos": self.ring.pos}
            payload["resume"] = told | ({} if resume is None else {"ok": missed is not None})
        hello(payload)
        self.replay(member.conn, missed or ())
        log.info("ws %s joined: %s, %s", member.conn[:8], login.how, ",".join(login.scopes) or "no scopes")
        self._stir()

    def drop_client(self, member: HubMember) -> None:
        """It is gone."""
        self.leave(member.conn)
        if self._nodes is not None:
            self._nodes.leave(member.conn)
        if self.host.program is not None and self.host.program.editors is not None:
            self.host.program.editors.leave(member.conn)
        self._stir()

    # --- what methods see -------------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        return self.host.settings

    def clients(self) -> tuple[ConnectedClient, ...]:
        """Everyone logged in, oldest first."""
        return tuple(member.client for member in self.members())

    def presence(self) -> list[dict[str, Any]]:
        """Who is here; this gateway first."""
        return list_presence(self.clients(), self.clock.now())

    def disconnect(self, *, device: str | None = None, conn: str | None = None, reason: str = "") -> int:
        """Close the live connections of a device (or one connection) at once. Returns how many."""
        out = [c for c in self._open if hasattr(c, "client") and (c.client.caller.device == device or c.conn == conn)]
        for connection in out:
            connection.cut(REVOKED, reason or "client invalidated")
        return len(out)

    async def health(self, *, fresh: bool = False) -> Mapping[str, Any]:
        """The health snapshot: the cached one unless `fresh`."""
        if fresh or not self._health:
            self._health = await make_health_snapshot(self.host, self.clock)
            self._versions["health"] += 1
        return self._health

    @cached_property
    def methods(self) -> Mapping[str, GatewayMethod]:
        """What clients may call."""
        found: Mapping[str, GatewayMethod] = late.load_part("methods")
        return found

    # --- inside -----------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Hear of questions and jobs, from the first client on: before, there is nobody to tell."""
        program = self.host.program
        if program is None or self._listening:
            return
        self._listening = True
        if program.approvals is not None:
            self._unfollow.append(late.load_part("questions")(self, program.approvals))
        if program.schedules is not None:
            self._unfollow.append(late.load_part("schedules")(self, program.schedules))
        if program.canvas is not None and not program.canvas.absence:
            self._unfollow.append(late.load_part("canvas-events")(self, program.canvas))

    @property
    def uptime_ms(self) -> int:
        return int(1000 * (self.clock.monotonic() - self._started))

    def _hello(self, client: ConnectedClient) -> dict[str, Any]:
        settings = self.settings
        main = settings.session.main_key
        shot: dict[str, Any] = {
            "presence": self.presence(),
            "health": self._health,
            "stateVersion": dict(self._versions),
            "uptimeMs": self.uptime_ms,
            "sessionDefaults": {
                "defaultAgentId": settings.default_agent,
                "mainKey": main,
                "mainSessionKey": f"agent:{settings.default_agent}:{main}",
                "scope": settings.session.scope,
            },
        }
        node = client.caller.role == NODE
        if node:  # it learns nothing of who else is here
            shot = {"presence": [], "health": {}, "stateVersion": {"presence": 0, "health": 0}, "uptimeMs": 0}
        elif client.may(ADMIN):
            shot |= {
                "configPath": paths.locate_config_file(settings.home),
                "stateDir": settings.home,
                "authMode": self.auth.mode,
            }
        return {
            "type": "hello-ok",
            "protocol": frames.PROTOCOL,
            "server": {"version": __version__, "connId": client.conn},
            "features": {
                "methods": [
                    name
                    for name, m in self.methods.items()
                    if m.listed and (client.caller.role != "node" or m.scope == NODE)
                ],
                "events": [
                    n for n, kind in EVENTS.items() if kind.listed and (client.caller.role != "node" or kind.nodes)
                ],
            },
            "snapshot": shot,
            "policy": {"maxPayload": frames.FRAME, "maxBufferedBytes": self.buffered, "tickIntervalMs": frames.TICK_MS},
        }

    def state_version(self, event: str) -> bytes:
        """Presence and health are numbered."""
        return frames.encode_json(self._versions) if event in ("presence", "health") else b""

    def _stir(self) -> None:
        """Presence changed: everyone hears of it once, in a moment."""
        if self._stirred or self._ended:
            return
        self._stirred = True
        asyncio.get_running_loop().call_later(SOON, self._tell_presence)

    def _tell_presence(self) -> None:
        self._stirred = False
        shown = self.presence()
        if self._ended or shown[1:] == getattr(self, "_shown", []):
            return
        self._shown = shown[1:]
        self._versions["presence"] += 1
        self.broadcast("presence", {"presence": shown}, drop_if_slow=True)

    def _revoked(self, device: str) -> None:
        self.disconnect(device=device, reason="device access revoked")

    async def _beat(self) -> None:
        beats = 0
        while True:
            await self.clock.sleep(frames.TICK_MS / 1000)
            beats += 1
            try:
                self.broadcast("tick", {"ts": self.clock.now()}, drop_if_slow=True)
                if beats % HEALTH_BEATS == 0 and self.members():
                    self.broadcast("health", await self.health(fresh=True), drop_if_slow=True)
            except Exception:  # task boundary: the next beat tries again
                log.exception("beat failed")
