"""The egress guard: all that is fetched for the model, or because content asks for it, goes through `EgressGuard.get`.

A host is resolved once, every address that comes out is judged, and only a judged address is connected to; each
redirect starts over. Sizes, times, types and encodings are limited here. Knows no tool.
"""

from __future__ import annotations

import asyncio
import re
import socket
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import urljoin, urlsplit

import aiohttp
import msgspec
from aiohttp import client_exceptions
from aiohttp.abc import AbstractResolver, ResolveResult

from palinurus.core.policy.address import (
    NO_OPEN_HOSTS,
    AddressRefusal,
    OpenHosts,
    UrlParts,
    judge_address,
    judge_url,
    parse_url,
)
from palinurus.core.types.tool import ToolFailure

ALLOW = "tools.web.fetch.allowedHosts"
AGENT = "Mozilla/5.0 (compatible; Palinurus/0.1; personal agent)"
_CHUNK = 64 * 1024
_MOVED = frozenset({301, 302, 303, 307, 308})
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_CONNECT = 10.0  # seconds for one address

# Host and port -> addresses. Raises OSError.
HostResolver: TypeAlias = Callable[[str, int], Awaitable[list[str]]]


class FetchLimits(msgspec.Struct, frozen=True):
    """`size` counts bytes after unpacking; what is longer is cut there. `time` is for all hops together, in seconds.
    An answer whose content type `types` does not match is not read."""

    size: int = 750_000
    time: float = 30.0
    redirects: int = 3
    types: re.Pattern[str] | None = None


DEFAULT_LIMITS = FetchLimits()


class FetchRequest(msgspec.Struct, frozen=True):
    """One request. With a body it is a POST. Headers and body never follow a redirect: nothing does."""

    url: str
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    rules: OpenHosts | None = None  # instead of the guard's own


class FetchResponse(msgspec.Struct, frozen=True):
    """What came. `url` is where it came from in the end; `cut` says that there was more."""

    url: str
    status: int
    type: str  # content type without parameters, lower case
    charset: str
    data: bytes
    cut: bool
    hops: tuple[str, ...] = ()
    retry: str = ""  # Retry-After, as it came
    challenge: str = ""  # WWW-Authenticate, as it came
    nonce: str = ""  # DPoP-Nonce, as it came


class OpenRoute(msgspec.Struct, frozen=True):
    """Where a request may go: the judged addresses of its host, and what to ask for there."""

    host: str
    port: int
    path: str
    addresses: list[str]


class FetchFailure(ToolFailure):
    """The guard did not let it through, or nothing came: the text says why and what would allow it."""


async def resolve_host(host: str, port: int) -> list[str]:
    """The system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


class EgressGuard:
    """`get` fetches; who connects himself asks where he may (`open_route`). One for the whole program."""

    def __init__(self, rules: OpenHosts = NO_OPEN_HOSTS, resolve: HostResolver = resolve_host, agent: str = "") -> None:
        self._rules = rules
        self._resolve = resolve
        self._agent = agent or AGENT

    async def get(self, ask: FetchRequest, limits: FetchLimits = DEFAULT_LIMITS) -> FetchResponse:
        """What is there, whatever its status. Raises FetchFailure."""
        try:
            async with asyncio.timeout(limits.time):
                return await self._walk(ask, limits)
        except TimeoutError:
            raise FetchFailure(f"nothing complete came within {limits.time:g} seconds (timeoutSeconds)") from None

    async def resolve_open(self, url: str, rules: OpenHosts) -> list[str]:
        """The addresses `url` leads to, all open under `rules`, for who connects himself. Raises FetchFailure."""
        return await self._addresses(self._allowed(url, rules, []), rules, [])

    async def open_route(self, url: str, rules: OpenHosts) -> OpenRoute:
        """Where a proxy connects for `url` (or for a tunnel there), judged under `rules` and the guard's own together.
        Raises FetchFailure."""
        both = self._rules.join(rules)
        at = self._allowed(url, both, [])
        return OpenRoute(at.host, at.port, at.path, await self._addresses(at, both, []))

    async def _walk(self, ask: FetchRequest, limits: FetchLimits) -> FetchResponse:
        url, hops = ask.url, list[str]()
        rules = self._rules if ask.rules is None else ask.rules
        while True:
            at = self._allowed(url, rules, hops)
            answer = await self._one(at, await self._addresses(at, rules, hops), ask, limits)
            if isinstance(answer, FetchResponse):
                return msgspec.structs.replace(answer, hops=tuple(hops))
            if ask.body is not None or len(hops) >= limits.redirects:
                more = "a request with a body is not sent on" if ask.body is not None else f"{limits.redirects} at most"
                raise FetchFailure(f"{at.host} redirects again ({more})")
            hops.append(at.url)
            url = urljoin(at.url, answer)
            ask = msgspec.structs.replace(ask, headers={})  # what was meant for the first host is not told to others

    def _allowed(self, url: str, rules: OpenHosts, hops: list[str]) -> UrlParts:
        at = parse_url(url)
        refused = at if isinstance(at, AddressRefusal) else judge_url(at, rules)
        if refused is not None:
            raise self._shut(refused, hops)
        assert isinstance(at, UrlParts)
        return at

    async def _addresses(self, at: UrlParts, rules: OpenHosts, hops: list[str]) -> list[str]:
        """All that the host leads to, each of them judged: one that is closed closes the host."""
        if at.numeric:
            return [at.host]
        try:
            found = await self._resolve(at.host, at.port)
        except (OSError, UnicodeError) as exc:
            raise FetchFailure(f"{at.host} cannot be found: {getattr(exc, 'strerror', None) or exc}") from None
        if not found:
            raise FetchFailure(f"{at.host} has no address")
        for address in found:
            refused = judge_address(at, address, rules)
            if refused is not None:
                raise self._shut(refused, hops)
        return found

    def _shut(self, refused: AddressRefusal, hops: list[str]) -> FetchFailure:
        after = f" (redirected there by {urlsplit(hops[-1]).netloc})" if hops else ""
        fix = f' To allow it, the owner adds to the config: {ALLOW}: ["{refused.entry}"]' if refused.entry else ""
        return FetchFailure(f"Not fetched: {refused.why}{after}.{fix}")

    async def _one(
        self, at: UrlParts, addresses: list[str], ask: FetchRequest, limits: FetchLimits
    ) -> FetchResponse | str:
        """One hop: what came, or where it leads."""
        connector = aiohttp.TCPConnector(
            resolver=_Pinned(addresses),
            socket_factory=_only(addresses),
            use_dns_cache=False,
            force_close=True,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,  # unpacked here, with a limit
            trust_env=False,  # a proxy would resolve and connect on its own
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT),
        )
        headers = {
            "User-Agent": self._agent,
            "Accept": "text/markdown, text/html;q=0.9, application/json;q=0.9, text/plain;q=0.8, */*;q=0.1",
            "Accept-Language": "en;q=0.9, *;q=0.5",
            "Accept-Encoding": "gzip, deflate",
            **ask.headers,
        }
        try:
            async with (
                session,
                session.request(
                    "GET" if ask.body is None else "POST",
                    at.url,
                    data=ask.body,
                    headers=headers,
                    allow_redirects=False,
                ) as response,
            ):
                if response.status in _MOVED and "Location" in response.headers:
                    return response.headers["Location"]
                return await _taken(at, response, limits)
        except (client_exceptions.ClientError, OSError, ValueError) as exc:
            raise FetchFailure(f"{at.host}: {_words(exc)}") from None


class _Pinned(AbstractResolver):
    """Answers with what was judged, whatever the name server says by now."""

    def __init__(self, addresses: list[str]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        kinds = [(a, socket.AF_INET6 if ":" in a else socket.AF_INET) for a in self._addresses]
        return [
            ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=socket.AI_NUMERICHOST)
            for address, kind in kinds
        ]

    async def close(self) -> None:
        pass


def _only(addresses: list[str]) -> Callable[[Any], socket.socket]:
    """Makes sockets for judged addresses and no others: the last look, right before the connection."""
    allowed = frozenset(addresses)

    def make(info: tuple[Any, Any, Any, Any, Any]) -> socket.socket:
        family, kind, proto, _, address = info
        if str(address[0]) not in allowed:
            raise OSError(f"{address[0]} is not the address that was judged")
        made = socket.socket(family, kind, proto)
        made.setblocking(False)
        return made

    return make


async def _taken(at: UrlParts, response: aiohttp.ClientResponse, limits: FetchLimits) -> FetchResponse:
    """The body up to the limit, unpacked. Raises FetchFailure."""
    kind = response.content_type.lower()
    if limits.types is not None and not limits.types.match(kind):
        raise FetchFailure(f"{at.host} answered with {kind[:80]} (status {response.status}), which is not read here")
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in ("", "identity") and coding not in _WINDOWS:
        raise FetchFailure(f"{at.host} sent its answer packed as {coding[:40]!r}, which was not asked for")
    box = _Box(coding, limits.size)
    async for chunk in response.content.iter_chunked(_CHUNK):
        if box.add(chunk):
            break
    after = response.headers.get("Retry-After", "")[:40]
    return FetchResponse(
        at.url,
        response.status,
        kind,
        response.charset or "",
        data=bytes(box.data),
        cut=box.full,
        retry=after,
        challenge=response.headers.get("WWW-Authenticate", "")[:2000],
        nonce=response.headers.get("DPoP-Nonce", "")[:2000],
    )


class _Box:
    """Takes chunks, unpacks them, and never holds more than `size` bytes, however little came packed."""

    def __init__(self, coding: str, size: int) -> None:
        self.data = bytearray()
        self.full = False
        self._size = size
        self._coding = coding
        self._unpack = zlib.decompressobj(_WINDOWS[coding]) if coding in _WINDOWS else None

    def add(self, chunk: bytes) -> bool:
        """True once nothing more is taken. Raises FetchFailure for what cannot be unpacked."""
        room = self._size - len(self.data) + 1
        self.data += self._opened(chunk, room) if self._unpack else chunk[:room]
        if len(self.data) > self._size:
            del self.data[self._size :]
            self.full = True
        return self.full

    def _opened(self, chunk: bytes, room: int) -> bytes:
        assert self._unpack is not None
        try:
            return self._unpack.decompress(chunk, room)
        except zlib.error:
            if self._coding != "deflate" or self.data:
                raise FetchFailure("the answer is packed in a way that cannot be unpacked") from None
        self._unpack = zlib.decompressobj(-15)  # some servers leave the header of deflate out
        try:
            return self._unpack.decompress(chunk, room)
        except zlib.error:
            raise FetchFailure("the answer is packed in a way that cannot be unpacked") from None


_KINDS: tuple[tuple[type[BaseException], str], ...] = (
    (client_exceptions.ClientConnectorCertificateError, "its certificate is not valid for this name"),
    (client_exceptions.ClientConnectorSSLError, "no safe connection could be made (TLS)"),
    (client_exceptions.ClientConnectorError, "cannot be connected to"),
    (client_exceptions.ServerTimeoutError, "did not answer in time"),
    (client_exceptions.ServerDisconnectedError, "hung up without an answer"),
    (client_exceptions.ClientPayloadError, "broke off in the middle of its answer"),
    (client_exceptions.ClientResponseError, "answered with something that is not HTTP"),
    (client_exceptions.InvalidURL, "has a URL that cannot be used"),
    (OSError, "cannot be connected to"),
)


def _words(exc: Exception) -> str:
    """Short, and without what the other side wrote."""
    return next((words for kind, words in _KINDS if isinstance(exc, kind)), "could not be fetched")
