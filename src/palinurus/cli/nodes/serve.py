"""`pal node run`: this machine as a node of a gateway, until it is stopped. Comes back by itself when the connection
breaks; ends when the gateway says no.

The gateway proves itself before it is shown a token: by its certificate, or by knowing the token already (an HMAC over
our nonce and the address). What was asked when the connection broke is ended: its outcome could not be told.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import signal
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from palinurus import __version__
from palinurus.backoff import Backoff
from palinurus.cli.nodes.host import NodeHost, NodeRefusal, RunningCommands
from palinurus.clock import Clock
from palinurus.config.sections.gateway import is_loopback
from palinurus.config.settings import Settings
from palinurus.errors import BadRequest, GatewayUnreachable, Unauthorized
from palinurus.files import write_whole_file
from palinurus.gateway.client import GatewayLink, LoginOptions, connect_gateway, load_identity
from palinurus.gateway.rpc import ClientDescription, MethodError
from palinurus.gateway.ws.device import decode_base64
from palinurus.services.nodes.pairing import SHORT, digest_token

FILE = "node.json"
CODE_PREFIX = "oc-pair://"
REPAIR = "pair it again: `pal nodes pair` there, then --code here"
PLAIN = "plain ws:// beyond this machine would show the token to the network"
PLAIN_FIX = "use wss:// (gateway.tls.enabled there), or an ssh tunnel to the same port of this machine"


class NodeState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """node.json (mode 0600): which gateway, what opens it, and what we are called."""

    url: str = ""
    token: str = ""
    fingerprint: str = ""
    name: str = ""
    refused: bool = False  # the token was taken away; it is shown again only where there is nothing else to show


class NodeOptions(msgspec.Struct, frozen=True):
    """What the line says; "" where it says nothing."""

    gateway: str = ""
    name: str = ""
    code: str = ""
    fingerprint: str = ""


class _SetupCode(msgspec.Struct, frozen=True, rename="camel"):
    url: str
    bootstrap_token: str
    tls_fingerprint: str = ""


def read_state(home: str) -> NodeState:
    """What is known from before. A file that cannot be read knows nothing."""
    try:
        with open(os.path.join(home, FILE), "rb") as file:
            return msgspec.json.decode(file.read(65536), type=NodeState)
    except (OSError, msgspec.DecodeError):
        return NodeState()


def write_state(home: str, state: NodeState) -> None:
    """On disk when this returns."""
    os.makedirs(home, mode=0o700, exist_ok=True)
    write_whole_file(os.path.join(home, FILE), msgspec.json.encode(state))


def parse_setup_code(code: str) -> _SetupCode:
    """Raises BadRequest."""
    data = decode_base64(code.strip().removeprefix(CODE_PREFIX))
    try:
        return msgspec.json.decode(data or b"", type=_SetupCode)
    except msgspec.DecodeError:
        raise BadRequest("this is no pairing code", fix="`pal nodes pair` on the gateway's machine makes one") from None


def plan_login(home: str, environ: Mapping[str, str], asked: NodeOptions) -> tuple[NodeState, dict[str, Any]]:
    """Where to go, and the credential as options of LoginOptions. Raises BadRequest, StateUnwritable."""
    known = read_state(home)
    code = parse_setup_code(asked.code) if asked.code else None
    url = asked.gateway or (code.url if code else "") or known.url
    if not url:
        raise BadRequest("which gateway?", fix="--gateway ws://127.0.0.1:18789, or --code from `pal nodes pair`")
    place = urlsplit(url)
    if place.scheme not in ("ws", "wss") or not place.hostname:
        raise BadRequest(f"{url[:80]!r} is no gateway's address", fix="write ws://HOST:PORT or wss://HOST:PORT")
    if place.scheme == "ws" and not is_loopback(place.hostname):
        raise BadRequest(PLAIN, fix=PLAIN_FIX)
    same = url == known.url
    pinned = asked.fingerprint or (code.tls_fingerprint if code else "") or (known.fingerprint if same else "")
    token, dead = (known.token, known.refused) if same and not code else ("", False)
    state = NodeState(url, token, pinned, name=asked.name or known.name, refused=dead)
    shared = environ.get("PALINURUS_GATEWAY_TOKEN") or environ.get("OPENCLAW_GATEWAY_TOKEN") or ""
    if code is not None:
        secret, how = code.bootstrap_token, {"code": code.bootstrap_token}
        prove = f"code:{digest_token(secret)[:SHORT]}"
    elif state.token and not (dead and shared):
        secret, how, prove = state.token, {"device_token": state.token}, f"node:{load_identity(home).id}"
    elif shared:
        secret, how, prove = shared, {"token": shared}, "token"
    else:
        raise BadRequest("this node is not paired", fix="--code from `pal nodes pair`, or PALINURUS_GATEWAY_TOKEN")
    safe = place.scheme == "wss"  # the certificate is the proof
    proof = {} if safe else {"proof": digest_token(secret), "prove_as": prove}
    return state, {**how, **proof, "fingerprint": pinned if safe else ""}


class NodeRunner:
    """One node. `show` prints a line for people."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        clock: Clock,
        asked: NodeOptions,
        show: Callable[[str], None],
    ) -> None:
        self._home = settings.home
        self._environ = environ
        self._clock = clock
        self._asked = asked
        self._show = show
        self._host = NodeHost(settings, environ, show)
        self._commands = RunningCommands()

    async def run(self) -> None:
        """Until cancelled. Raises Unauthorized when the gateway says no, BadRequest."""
        tries = Backoff()
        while True:
            try:
                link = await self._connect()
            except GatewayUnreachable as exc:
                self._show(f"{exc.message}; trying again")
                await self._clock.sleep(tries.next_delay())
                continue
            tries.reset()
            try:
                await self._serve(link)
            finally:
                await self._commands.close()
                await link.close()
            self._show("the connection ended; trying again")
            await self._clock.sleep(tries.next_delay())

    async def _connect(self) -> GatewayLink:
        """Raises GatewayUnreachable for what may pass, Unauthorized for what will not."""
        state, credential = plan_login(self._home, self._environ, self._asked)
        surface = self._host.surface
        kind = {"Darwin": "macos", "Windows": "windows"}.get(platform.system(), "linux")
        name = state.name or platform.node()
        options = LoginOptions(
            **credential,
            identity=load_identity(self._home),
            client=ClientDescription("node-host", __version__, kind, "node", display_name=name, device_family=kind),
            role="node",
            scopes=(),
            caps=surface.caps,
            commands=surface.commands,
            permissions=surface.permissions,
        )
        try:
            link = await connect_gateway(state.url, self._clock, options)
        except MethodError as error:
            if error.retryable or error.code == "UNAVAILABLE":
                raise GatewayUnreachable(error.message) from None
            if "device_token" in credential:
                await asyncio.to_thread(write_state, self._home, replace(state, refused=True))
            asked = isinstance(error.details, dict) and error.details.get("requestId")
            fix = f"`pal nodes approve {name}` there, then start it again" if asked else REPAIR
            raise Unauthorized(f"the gateway refused this node: {error.message}", fix=fix) from None
        given = link.hello.get("auth", {}).get("deviceToken")
        token = given or ("" if state.refused else state.token)
        state = replace(state, token=token, refused=False)
        await asyncio.to_thread(write_state, self._home, state)
        self._asked = NodeOptions(state.url, state.name, "", state.fingerprint)  # a code is good for one time
        held = "held by a sandbox" if self._host.contained else "not contained: the gateway asks before each command"
        self._show(
            f"connected to {state.url} as {name} ({options.identity.id[:12] if options.identity else ''}); {held}"
        )
        if not token:
            self._show(f"waits for approval: `pal nodes` there, then `pal nodes approve {name}`")
        return link

    async def _serve(self, link: GatewayLink) -> None:
        """Until the connection ends, or nothing at all came for two ticks."""
        quiet = 2.5 * float(link.hello.get("policy", {}).get("tickIntervalMs") or 30_000) / 1000
        closed = asyncio.ensure_future(link.wait_closed())
        try:
            while True:
                coming = asyncio.ensure_future(link.events.get())
                await asyncio.wait({coming, closed}, timeout=quiet, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    coming.cancel()
                    return
                self._hear(link, coming.result())
        finally:
            closed.cancel()

    def _hear(self, link: GatewayLink, frame: Mapping[str, Any]) -> None:
        told = frame.get("payload")
        if not isinstance(told, dict):
            return
        if frame["event"] == "node.invoke.cancel":
            self._commands.cancel(str(told.get("invokeId")))
        elif frame["event"] == "node.invoke.request" and not self._commands.has(str(told.get("id"))):
            self._commands.start(str(told.get("id")), self._answer(link, told))

    async def _answer(self, link: GatewayLink, told: Mapping[str, Any]) -> None:
        said: dict[str, Any] = {"id": told.get("id"), "nodeId": told.get("nodeId"), "ok": True}
        command = str(told.get("command") or "")
        try:
            params = msgspec.json.decode(told.get("paramsJSON") or "{}")
            payload = await self._host.answer(command, params if isinstance(params, dict) else {})
            said["payloadJSON"] = msgspec.json.encode(payload).decode()
        except NodeRefusal as refusal:
            said |= {"ok": False, "error": {"code": refusal.code, "message": refusal.message}}
        except msgspec.DecodeError:
            said |= {"ok": False, "error": {"code": "INVALID_REQUEST", "message": "paramsJSON malformed JSON"}}
        self._show(f"{command}: {'done' if said['ok'] else said['error']['message']}")
        with contextlib.suppress(GatewayUnreachable, MethodError, ConnectionError):
            await link.call("node.invoke.result", said)


async def serve_node(
    settings: Settings, environ: Mapping[str, str], clock: Clock, asked: NodeOptions, show: Callable[[str], None]
) -> int:
    """Until a signal: 0. Raises Unauthorized, BadRequest, StateUnwritable."""
    work = asyncio.ensure_future(NodeRunner(settings, environ, clock, asked, show=show).run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await work
    return 0
