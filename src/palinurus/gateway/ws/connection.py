"""One WebSocket: challenge, login, then requests in and responses and events out. One task reads, one writes, each
request is a task of its own. What a client may do was decided at login; here it is held to it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp.http_websocket import WSMsgType
from aiohttp.web_ws import WebSocketResponse
from msgspec.structs import replace

from palinurus.core.types.caller import NODE, Caller
from palinurus.errors import PalinurusError
from palinurus.gateway import limits, rpc
from palinurus.gateway.auth import GatewayPeer
from palinurus.gateway.rpc import ConnectedClient, GatewayMethod, MethodCall, MethodError
from palinurus.gateway.ws import frames, handshake
from palinurus.gateway.ws.handshake import ClientLogin, LoginRefusal, NodeKnock, NodesNeeded, PairingNeeded
from palinurus.gateway.ws.hub import OutgoingFrames
from palinurus.late import load_part
from palinurus.services.nodes.pairing import NodeAsked

if TYPE_CHECKING:
    from palinurus.gateway.clients import GatewayClients

log = logging.getLogger(__name__)

LINGER = 2.0  # seconds a closing client has to take its last frames
POLICY, TOO_BIG = 1008, 1009


class WireBudget(Protocol):
    """The HTTP connection below, as far as it counts bytes: `budget` may still come before `over` is called."""

    budget: int | None
    over: Callable[[], None]


class ClientConnection:
    """A client from its first byte to its last. `client` is there after login only."""

    client: ConnectedClient

    def __init__(
        self, gateway: GatewayClients, ws: WebSocketResponse, transport: asyncio.Transport, wire: WireBudget
    ) -> None:
        self._gateway = gateway
        self._ws = ws
        self._transport = transport
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._out = OutgoingFrames(gateway.buffered)
        self._ending: tuple[int, str] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._rebuffs = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._killer: asyncio.TimerHandle | None = None
        self.conn = str(uuid.uuid4())

    async def run(self, peer: GatewayPeer) -> None:
        """Until it ends, one way or the other."""
        self._wire.budget, self._wire.over = frames.BEFORE_LOGIN, lambda: self.close(TOO_BIG, "")
        self._deadline = self._loop.call_later(
            self._gateway.settings.gateway.handshake, lambda: self.close(POLICY, "handshake timeout")
        )
        writing = self._loop.create_task(self._write())
        try:
            if await self._login(peer):
                await self._read()
        finally:
            self._deadline.cancel()
            self.close(1000, "", flush=True)
            await writing
            if self._killer is not None:
                self._killer.cancel()

    # --- out ------------------------------------------------------------------------------------------------------

    def push(self, head: bytes, payload: bytes, tail: bytes, droppable: bool = False) -> None:
        """Queue an event."""
        self._add((head, payload, tail), droppable)

    def close(self, code: int, reason: str, *, flush: bool = False) -> None:
        """End it: nothing of the client is served from now on. With `flush` what waits is written first."""
        if self._ending is not None:
            return
        self._ending = (code, reason)
        self._gateway.drop_client(self)  # at once: its socket may take seconds to die
        if not flush:
            self._out.clear()
        self._out.wake.set()
        self._killer = self._loop.call_later(LINGER, self._transport.abort)

    def cut(self, code: int, reason: str) -> None:
        """End it and what it has under way: its rights are gone."""
        self.close(code, reason)
        for task in tuple(self._tasks):
            task.cancel()

    def _add(self, pieces: tuple[bytes, ...], droppable: bool = False) -> None:
        if self._ending is not None:
            return
        if not self._out.add(pieces, self._transport.get_write_buffer_size(), droppable):
            log.warning("client %s reads too slowly and is closed", self.conn)
            self.close(POLICY, "slow consumer")

    async def _write(self) -> None:
        """The one writer; the close frame is its last."""
        try:
            while True:
                await self._out.wake.wait()
                while (frame := self._out.take()) is not None:
                    await self._ws.send_frame(frame, WSMsgType.TEXT)
                if self._ending is not None:
                    code, reason = self._ending
                    await self._ws.close(code=code, message=frames.encode_close_reason(reason), drain=False)
                    return
        except (ConnectionError, RuntimeError):  # RuntimeError: aiohttp's word for a socket that closed in between
            self.close(1006, "")
            self._transport.abort()

    # --- in -------------------------------------------------------------------------------------------------------

    async def _next(self) -> bytes | None:
        """The next frame's bytes; None when there will be none."""
        while self._ending is None:
            message = await self._ws.receive()
            if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                data = message.data
                return data if isinstance(data, bytes) else str(data).encode()
            if message.type not in (WSMsgType.PING, WSMsgType.PONG):
                return None
        return None

    async def _login(self, peer: GatewayPeer) -> bool:
        nonce = str(uuid.uuid4())
        proof = {"proof": peer.proof} if peer.proof else {}
        challenge = frames.encode_json({"nonce": nonce, "ts": self._gateway.clock.now(), **proof})
        self.push(frames.encode_event_head("connect.challenge"), challenge, frames.encode_event_tail())
        data = await self._next()
        if data is None or self._ending is not None:
            return False
        login = handshake.Handshake(self._gateway.auth, self._gateway.pairing, peer, nonce)
        while True:
            # Something may be taken away while we wait for the disk: then the same words are judged again.
            taken = self._gateway.count_taken()
            outcome = login.feed(data, self._gateway.clock.now())
            if isinstance(outcome, NodesNeeded):
                try:
                    login.nodes = (await self._gateway.open_nodes()).pairing
                    continue
                except MethodError as error:
                    outcome = LoginRefusal(outcome.id, error)
            if isinstance(outcome, ClientLogin) and outcome.params.device is not None:
                await self._gateway.look_again(outcome.params.device.id)
            token, outcome = await self._settled(outcome)
            if self._gateway.count_taken() == taken:
                break
        if isinstance(outcome, LoginRefusal):
            self._refuse(outcome)
            return False
        if self._ending is not None:
            return False
        self._welcome(outcome, token, peer)
        return True

    async def _settled(
        self, outcome: LoginRefusal | ClientLogin | PairingNeeded | NodeKnock
    ) -> tuple[str, LoginRefusal | ClientLogin]:
        """What has to be on disk before the client hears of it."""
        try:
            if isinstance(outcome, PairingNeeded):
                request = await self._gateway.pairing.ask(outcome.device)
                return "", LoginRefusal(outcome.id, handshake.make_pairing_error(request.request_id, outcome))
            if isinstance(outcome, LoginRefusal):
                return "", outcome
            starting = self._gateway.startup_error()
            if starting is not None:
                return "", LoginRefusal(outcome.id, starting, 1013)
            if isinstance(outcome, NodeKnock):
                code = outcome.params.auth.bootstrap_token if outcome.params.auth and outcome.how == "code" else ""
                nodes = (await self._gateway.open_nodes()).pairing
                shown = nodes.find_code(code or "")
                _, token = await nodes.admit(outcome.facts, outcome.how, code or "")
                who = f"node:{outcome.facts.node_id}"
                login = ClientLogin(outcome.id, outcome.params, (), outcome.how, principal=who)
                if shown is not None and shown.phone:
                    phone = handshake.make_phone(outcome.params, self._gateway.clock.now())
                    login = replace(login, handover=(await self._gateway.pairing.enrol(phone, anew=True))[1])
                return token, replace(login, node=outcome.facts)
            if outcome.enrol is not None:
                _, token = await self._gateway.pairing.enrol(outcome.enrol)
                return token, outcome
            if outcome.params.device is not None:
                await self._gateway.pairing.note_connected(outcome.params.device.id)
            return "", outcome
        except NodeAsked as asked:
            return "", LoginRefusal(outcome.id, handshake.make_node_error(asked.request))
        except PalinurusError as error:
            return "", LoginRefusal(outcome.id, rpc.to_method_error(error))
        except MethodError as error:
            return "", LoginRefusal(outcome.id, error)

    def _refuse(self, refused: LoginRefusal) -> None:
        error = refused.error
        reason = ""
        if error is not None:
            self._add((frames.encode_refusal(refused.id, error),))
            details = error.details if isinstance(error.details, dict) else {}
            request = details.get("requestId")
            reason = f"{error.message} (requestId: {request})" if request else error.message
            log.info("ws login refused: %s", details.get("code") or error.message)
        self.close(refused.close, reason, flush=True)

    def _welcome(self, login: ClientLogin, token: str, peer: GatewayPeer) -> None:
        """From here on it is a client. One step: nothing can be sent between hello-ok and the first event."""
        asked = login.params
        caller = Caller(
            login.principal,
            frozenset(login.scopes),
            login.how,
            "node" if asked.role == NODE else "operator",
            device=asked.device.id if asked.device else "",
            address=peer.address,
        )
        now, caps = self._gateway.clock.now(), frozenset(asked.caps)
        self.client = ConnectedClient(self.conn, caller, asked.client, caps=caps, at=now)
        self._wire.budget = None
        if self._deadline is not None:
            self._deadline.cancel()
        self._gateway.add_client(self, login, token, lambda hello: self._add((frames.encode_answer(login.id, hello),)))

    async def _read(self) -> None:
        while (data := await self._next()) is not None:
            if self._ending is not None:
                return
            request = frames.decode_request(data)
            if isinstance(request, frames.RequestFrame):
                self._dispatch(request)
            elif request is not None:
                self._add((frames.encode_refusal(request.id, MethodError(request.message)),))

    def _dispatch(self, request: frames.RequestFrame) -> None:
        method = self._gateway.methods.get(request.method)
        error = self._barred(request.method, method)
        if error is None and len(self._tasks) >= limits.REQUESTS:
            text = "too many requests under way"
            error = MethodError(text, code="UNAVAILABLE", retryable=True, retry_after_ms=500)
        if error is not None:
            self._add((frames.encode_refusal(request.id, error),))
            if self._rebuffs >= limits.REBUFFS:
                self.close(POLICY, "repeated unauthorized requests", flush=True)
            return
        assert method is not None
        task = self._gateway.tasks.start(self._serve(method, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _barred(self, name: str, method: GatewayMethod | None) -> MethodError | None:
        """Why this client may not call this, if so."""
        caller = self.client.caller
        scope, absent = (method.scope, "") if method is not None else load_part("newer").find_absent(name)
        if method is None and caller.role == NODE and scope != NODE:
            return MethodError("unknown method")
        if refused := caller.explain_refusal(scope):
            self._rebuffs += refused.startswith("unauthorized role")
            return MethodError(refused)
        if method is None:
            return MethodError(absent)
        self._rebuffs = 0
        who, now = caller.device or caller.id, self._gateway.clock.monotonic()
        wait = self._gateway.pace.count(who, now) if method.write else 0.0
        if wait > 0:
            text = f"rate limit exceeded for {name}; retry after {int(wait) + 1}s"
            details = {"method": name, "limit": f"{limits.WRITES} per {limits.WINDOW:.0f}s"}
            after = int(wait * 1000) + 1
            return MethodError(text, code="UNAVAILABLE", details=details, retryable=True, retry_after_ms=after)
        return None

    async def _serve(self, method: GatewayMethod, request: frames.RequestFrame) -> None:
        call = MethodCall(
            self._gateway, self.client, request.id, method.name, reply=lambda payload: self._answer(request, payload)
        )
        try:
            await rpc.serve_call(method, call, request.params)
        except MethodError as error:
            self._add((frames.encode_refusal(request.id, error),))

    def _answer(self, request: frames.RequestFrame, payload: Any) -> None:
        frame = frames.encode_answer(request.id, payload)
        if len(frame) > frames.FRAME:
            frame = frames.encode_refusal(request.id, MethodError("the answer is too large; ask for less"))
        self._add((frame,))
