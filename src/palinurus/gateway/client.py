"""The other end: a client of the gateway's protocol that signs its challenge. Used by the command line and by tests.

One task reads. Responses go to whoever asked, events into `events`; what a client does with them is its own affair.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import msgspec
from nacl.bindings import crypto_sign, crypto_sign_seed_keypair

from palinurus import __version__
from palinurus.clock import Clock
from palinurus.errors import GatewayUnreachable, StateUnwritable
from palinurus.files import write_whole_file
from palinurus.gateway.rpc import ADMIN, ClientDescription, MethodError
from palinurus.gateway.token import PROVE_AS_HEADER, PROVE_HEADER, make_gateway_proof
from palinurus.gateway.ws import device, frames

FILE = os.path.join("identity", "device.key")
OPEN_SECONDS = 15.0


class DeviceIdentity(msgspec.Struct, frozen=True):
    """A device's key pair."""

    public: bytes
    secret: bytes

    @property
    def id(self) -> str:
        return device.derive_device_id(self.public)

    def sign(self, text: bytes) -> str:
        """The signature as it is sent."""
        return device.encode_base64url(crypto_sign(text, self.secret)[:64])


def make_identity(seed: bytes | None = None) -> DeviceIdentity:
    """A new identity, or the one of a seed of 32 bytes."""
    return DeviceIdentity(*crypto_sign_seed_keypair(seed or os.urandom(32)))


def load_identity(home: str) -> DeviceIdentity:
    """This machine's identity, made on first use (mode 0600): whole, or not there. Raises StateUnwritable."""
    path = os.path.join(home, FILE)
    try:
        if not os.path.lexists(path):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            write_whole_file(mine := f"{path}.{os.getpid()}", os.urandom(32))
            try:
                os.link(mine, path)
            except FileExistsError:  # another process was first: it is that one's
                pass
            finally:
                os.unlink(mine)
        with open(path, "rb") as file:
            seed = file.read(33)
    except OSError as exc:
        fix = f"check the owner of {home} and the room on its disk"
        raise StateUnwritable(f"cannot use {path}: {exc.strerror}", fix=fix) from None
    if len(seed) != 32:
        raise StateUnwritable(f"{path} is damaged", fix="delete it: a new one is made")
    return make_identity(seed)


class LoginOptions(msgspec.Struct, frozen=True):
    """How to log in. Exactly one credential is enough."""

    token: str = ""
    password: str = ""
    device_token: str = ""
    code: str = ""  # that pairs a node
    identity: DeviceIdentity | None = None
    client: ClientDescription = ClientDescription("cli", __version__, "linux", "cli")
    role: str = "operator"
    scopes: Sequence[str] = (ADMIN,)
    caps: Sequence[str] = ("tool-events",)
    commands: Sequence[str] = ()  # of a node
    permissions: Mapping[str, bool] = {}
    resume: Mapping[str, Any] | None = None
    version: int = 3  # of the signature
    origin: str = ""
    fingerprint: str = ""  # of the only certificate that is trusted; "": those of known issuers
    proof: str = ""  # the key of the only gateway that is trusted (gateway.json); "": whoever answers
    prove_as: str = ""  # what that key is (see PROVE_AS_HEADER)


class GatewayLink:
    """A connection that is logged in. Make one with `connect`."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse, session: aiohttp.ClientSession, clock: Clock) -> None:
        self.ws = ws
        self.hello: dict[str, Any] = {}
        self.nonce = ""  # that the gateway was asked to prove itself with
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.pos = 0  # of the last event that had one
        self._session = session
        self._clock = clock
        self._asked: dict[str, asyncio.Queue[dict[str, Any] | None]] = {}
        self._reader: asyncio.Task[None] | None = None

    async def login(self, options: LoginOptions) -> dict[str, Any]:
        """Answer the challenge. Raises MethodError with the gateway's refusal, GatewayUnreachable when it hangs up."""
        challenge = await self._frame()
        wanted = make_gateway_proof(options.proof, self.nonce, self.ws.get_extra_info("peername"))
        if options.proof and not hmac.compare_digest(str(challenge["payload"].get("proof", "")), wanted or "-"):
            raise GatewayUnreachable(NOT_OURS[0], fix=NOT_OURS[1])
        params = make_connect_params(options, challenge["payload"]["nonce"], self._clock.now())
        await self.send({"type": "req", "id": "connect", "method": "connect", "params": params})
        answer = await self._frame()
        if not answer.get("ok"):
            raise _error(answer)
        self.hello = answer["payload"]
        self.pos = self.hello.get("resume", {}).get("pos", 0)
        self._reader = asyncio.get_running_loop().create_task(self._read())
        return self.hello

    async def call(self, method: str, params: Any = None, *, final: bool = False) -> Any:
        """The payload of the response; with `final` that of the second one. Raises MethodError, GatewayUnreachable."""
        ident = uuid.uuid4().hex
        answers: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._asked[ident] = answers
        try:
            await self.send(
                {"type": "req", "id": ident, "method": method, **({} if params is None else {"params": params})}
            )
            while True:
                answer = None if self.ws.closed and answers.empty() else await answers.get()
                if answer is None:
                    raise GatewayUnreachable(
                        f"the gateway closed the connection ({self.ws.close_code})",
                        fix="run it again; `pal gateway logs` says why it closed",
                    )
                if not answer["ok"]:
                    raise _error(answer)
                payload = answer.get("payload")
                if not (final and isinstance(payload, dict) and payload.get("status") == "accepted"):
                    return payload
        finally:
            del self._asked[ident]

    async def send(self, frame: Mapping[str, Any]) -> None:
        """Any frame."""
        await self.ws.send_frame(frames.encode_json(frame), aiohttp.WSMsgType.TEXT)

    async def event(self, name: str) -> dict[str, Any]:
        """The next event of this name; others that come before it are thrown away."""
        while True:
            frame = await self.events.get()
            if frame["event"] == name:
                return frame

    def resume(self) -> dict[str, Any]:
        """Where this connection is: what the next one says to go on from here."""
        return {"epoch": self.hello["resume"]["epoch"], "pos": self.pos, "connId": self.hello["server"]["connId"]}

    async def wait_closed(self) -> int | None:
        """Wait until the gateway ends it; the close code."""
        if self._reader is not None:
            await asyncio.wait({self._reader})
        return self.ws.close_code

    async def close(self) -> None:
        """End it."""
        await self.ws.close()
        if self._reader is not None:
            await asyncio.wait({self._reader})
        await self._session.close()

    async def _frame(self) -> dict[str, Any]:
        message = await self.ws.receive()
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise GatewayUnreachable(
                f"the gateway closed the connection ({self.ws.close_code})",
                fix="run it again; `pal gateway logs` says why it closed",
            )
        found: dict[str, Any] = msgspec.json.decode(message.data)
        return found

    async def _read(self) -> None:
        try:
            async for message in self.ws:
                frame = msgspec.json.decode(message.data)
                if frame["type"] == "event":
                    self.pos = frame.get("pos", self.pos)
                    self.events.put_nowait(frame)
                elif frame["id"] in self._asked:
                    self._asked[frame["id"]].put_nowait(frame)
        finally:
            for answers in self._asked.values():
                answers.put_nowait(None)


def make_connect_params(options: LoginOptions, nonce: str, now: int) -> dict[str, Any]:
    """The params of `connect`, signed if there is an identity."""
    auth = {"token": options.token, "password": options.password, "deviceToken": options.device_token}
    auth["bootstrapToken"] = options.code
    params: dict[str, Any] = {
        "minProtocol": frames.PROTOCOL,
        "maxProtocol": frames.PROTOCOL,
        "client": msgspec.to_builtins(options.client),
        "role": options.role,
        "scopes": list(options.scopes),
        "caps": list(options.caps),
        "auth": {key: value for key, value in auth.items() if value},
    }
    if options.role == "node":
        params |= {"commands": list(options.commands), "permissions": dict(options.permissions)}
    if options.resume is not None:
        params["resume"] = dict(options.resume)
    who = options.identity
    if who is not None:
        shown = options.token or options.device_token or options.code
        claim = device.DeviceClaim(options.client, options.role, options.scopes, shown)
        params["device"] = {
            "id": who.id,
            "publicKey": device.encode_base64url(who.public),
            "signature": who.sign(device.make_signed_text(options.version, who.id, claim, now, nonce=nonce)),
            "signedAt": now,
            "nonce": nonce,
        }
    return params


NOT_OURS = (
    "something answers there, but it cannot prove that it is the gateway of this home; nothing was sent to it",
    "`pal doctor` says what has the port; end that, or set another gateway.port",
)


async def open_link(
    url: str, clock: Clock, origin: str = "", fingerprint: str = "", *, prove_as: str = ""
) -> GatewayLink:
    """A connection that has not logged in yet. Raises GatewayUnreachable."""
    pinned = aiohttp.Fingerprint(bytes.fromhex(fingerprint)) if fingerprint else True
    nonce = uuid.uuid4().hex
    more = {"Origin": origin, PROVE_AS_HEADER: prove_as}
    headers = {PROVE_HEADER: nonce, **{name: value for name, value in more.items() if value}}
    session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(connect=OPEN_SECONDS))
    try:
        ws = await session.ws_connect(url, max_msg_size=frames.FRAME, compress=0, headers=headers, ssl=pinned)
    except (aiohttp.ClientError, OSError) as exc:
        await session.close()
        # aiohttp's own words name sockets and TLS, which nobody asked about
        code: int | None = getattr(getattr(exc, "os_error", exc), "errno", None)
        why = os.strerror(code) if code else exc
        raise GatewayUnreachable(f"no gateway answers at {url}: {why}", fix="`pal gateway` starts it") from None
    link = GatewayLink(ws, session, clock)
    link.nonce = nonce
    return link


async def connect_gateway(url: str, clock: Clock, options: LoginOptions) -> GatewayLink:
    """A connection that is logged in. Raises MethodError when it is refused, GatewayUnreachable."""
    link = await open_link(url, clock, options.origin, options.fingerprint, prove_as=options.prove_as)
    try:
        await link.login(options)
    except BaseException:
        await link.close()
        raise
    return link


def _error(answer: dict[str, Any]) -> MethodError:
    error = dict(answer["error"])
    again, after = error.get("retryable"), error.get("retryAfterMs")
    return MethodError(
        error["message"], code=error["code"], details=error.get("details"), retryable=again, retry_after_ms=after
    )
