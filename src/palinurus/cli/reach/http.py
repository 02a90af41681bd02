"""Where the gateway of this home is, and a small HTTP client for it: one request a connection, HTTP/1.0, so that a
body ends with it.

Exists because importing a full client costs more than the whole request. Not for other servers.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import ssl
from collections.abc import AsyncIterator

import msgspec

from palinurus.config.settings import Settings
from palinurus.errors import GatewayUnreachable
from palinurus.gateway import token

LIMIT = 64 * 1024 * 1024  # bytes of one server-sent event
CONNECT_SECONDS = 5.0
ALIVE_SECONDS = 2.0
ELSEWHERE = "gateway.remote.url says where it is; gateway.mode: 'local' works with the state that is here"
NOT_LET_IN = "is it a gateway of another PALINURUS_HOME?"
NOT_LET_IN_THERE = "gateway.remote.{} is to be what gateway.auth.{} is there"
NOBODY = "0" * 64  # the fingerprint of no certificate


class GatewayEndpoint(msgspec.Struct, frozen=True):
    """Where the gateway is, and what opens it."""

    host: str
    port: int
    token: str = ""
    fingerprint: str = ""  # of its certificate; "": plain HTTP, or one that a known issuer signed
    proof: str = ""  # the key with which it proves itself; "": none is known
    remote: bool = False  # of another home: the owner named its address, and no key of it is known
    issued: bool = False  # TLS with a certificate of a known issuer

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.fingerprint or self.issued else 'http'}://{host}:{self.port}"


class GatewayHttpAnswer:
    """A response whose head has been read. Use `whole` or `events`, then `close`."""

    def __init__(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Raises ValueError, IndexError: that is no head."""
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split(" ", 2)[1])
        pairs = (line.partition(":") for line in lines)
        self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        self._reader = reader
        self._writer = writer

    async def read_body(self) -> bytes:
        """The body."""
        return await self._reader.read()

    async def events(self) -> AsyncIterator[tuple[str, bytes]]:
        """(event name, data) of each server-sent event. Ends with the connection."""
        while True:
            try:
                block = await self._reader.readuntil(b"\n\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            name, data = "", b""
            for line in block.split(b"\n"):
                if line.startswith(b"data: "):
                    data = line[6:]
                elif line.startswith(b"event: "):
                    name = line[7:].decode()
            if data:
                yield name, data

    def close(self) -> None:
        self._writer.close()


async def send_request(
    address: GatewayEndpoint, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> GatewayHttpAnswer:
    """Send one request and read the head of the answer. Raises GatewayUnreachable; ConnectionError if it breaks off."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await _connect(address)
            if address.token and not address.fingerprint and not address.remote:
                await _prove(address, reader, writer)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as exc:
        fix = ELSEWHERE if address.remote else "`pal gateway` starts one"
        raise GatewayUnreachable(f"no gateway answers at {address.url}: {exc or 'timed out'}", fix=fix) from None
    host = address.url.partition("://")[2]
    lines = [f"{method} {path} HTTP/1.0", f"Host: {host}", f"Content-Length: {len(body)}"]
    if address.token:
        lines.append(f"Authorization: Bearer {address.token}")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        return GatewayHttpAnswer(head, reader, writer)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, IndexError):
        writer.close()
        raise ConnectionResetError("the gateway broke off") from None


async def _connect(address: GatewayEndpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Nothing is sent to a server that has another certificate than the one we know. Raises OSError."""
    context = ssl.create_default_context() if address.fingerprint or address.issued else None
    if context is None or not address.fingerprint:
        return await asyncio.open_connection(address.host, address.port, limit=LIMIT, ssl=context)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the fingerprint says more than an issuer
    reader, writer = await asyncio.open_connection(address.host, address.port, limit=LIMIT, ssl=context)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True) or b""
    if hmac.compare_digest(hashlib.sha256(found).hexdigest(), address.fingerprint):
        return reader, writer
    writer.close()
    raise ConnectionRefusedError("it has another certificate than the gateway of this home")


async def _prove(address: GatewayEndpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ask on this very connection, before anything secret goes over it. Raises ConnectionRefusedError."""
    nonce = os.urandom(16).hex()
    host = address.url.partition("://")[2]
    writer.write(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n{token.PROVE_HEADER}: {nonce}\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    found = dict(line.split(": ", 1) for line in head.split("\r\n") if ": " in line)
    await reader.readexactly(min(int(found.get("content-length", "0")), 4096))
    wanted = token.make_gateway_proof(address.proof, nonce, writer.get_extra_info("peername"))
    if not hmac.compare_digest(found.get(token.PROOF_HEADER, ""), wanted or "-"):
        writer.close()
        raise ConnectionRefusedError("it cannot prove to be the gateway of this home; nothing was sent to it")


async def is_gateway_alive(address: GatewayEndpoint) -> bool:
    """Does the gateway of this home answer there, and prove it? The token is not sent."""
    if address.remote:
        return await _answers(msgspec.structs.replace(address, token=""))
    try:
        async with asyncio.timeout(ALIVE_SECONDS):
            reader, writer = await _connect(address)
            try:
                await _prove(address, reader, writer)
                return True
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return False


async def _answers(address: GatewayEndpoint) -> bool:
    try:
        answer = await send_request(address, "GET", "/healthz")
        answer.close()
        return answer.status == 200
    except (GatewayUnreachable, ConnectionError):
        return False


def find_gateway_address(settings: Settings) -> GatewayEndpoint:
    """Where the gateway is: elsewhere, if the config says so, else where the last one of this home said, else where the
    config says."""
    if settings.gateway.mode == "remote" and settings.gateway.remote.url:
        there = settings.gateway.remote
        host, port, tls = there.place
        proof = there.fingerprint if tls else ""
        secret = (there.token or there.password).reveal()
        return GatewayEndpoint(host, port, secret, proof, remote=True, issued=tls and not proof)
    place = token.find_location(settings.home)
    gateway = settings.gateway
    if gateway.auth_mode == "password":
        secret = gateway.password.reveal()
    else:
        secret = gateway.token.reveal() or token.read_token(settings.home)
    if place is not None:
        return GatewayEndpoint(place.host, place.port, secret, place.fingerprint, proof=place.proof)
    unknown = NOBODY if gateway.tls.enabled else ""
    return GatewayEndpoint(token.to_reachable_host(gateway.bind), gateway.port, secret, unknown)


async def is_gateway_running(settings: Settings) -> bool:
    """Does the gateway of this home answer? Raises GatewayUnreachable if the one elsewhere does not: nothing is done
    here in its place."""
    address = find_gateway_address(settings)
    found = await is_gateway_alive(address)
    if address.remote and not found:
        raise GatewayUnreachable(f"no gateway answers at {address.url}", fix=ELSEWHERE)
    return found
