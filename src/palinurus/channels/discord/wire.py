"""The connection to Discord: discord.py's routes and its gateway socket, without its client and its caches.

Every request is tried once and fails as an exception: what is said again, and when, is the outbox's business. The
address is a value of each `DiscordRest`; the gateway's address is what that server names. Knows nothing of messages.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, cast

import aiohttp
import yarl
from discord import Client, Intents
from discord.errors import HTTPException, RateLimited
from discord.gateway import DiscordClientWebSocketResponse, DiscordWebSocket, ReconnectWebSocket
from discord.http import HTTPClient, Route

from palinurus.channels.kit import read_seconds

API = "https://discord.com/api/v10"
FILES = ("cdn.discordapp.com", "media.discordapp.net")  # where attachments are; our token is not sent there
TIMEOUT = aiohttp.ClientTimeout(total=60, sock_connect=10)
OPENING = 60.0  # seconds for a gateway connection to be made
BEAT = 60.0  # seconds of silence after which it is taken for dead
AGAIN, LEAVING = 4000, 1000  # why we hang up: to come back, or for good
OVER = (4003, 4007, 4009)  # why the gateway hangs up when a session cannot be taken up again
CHUNK = 65_536
_EVERYWHERE = "*"  # the limit over all routes

EventParsers = Mapping[str, Callable[[Any], None]]


class DiscordRateLimit(RateLimited):
    """Too many requests; `everywhere`: of all kinds, from this bot."""

    def __init__(self, retry_after: float, everywhere: bool) -> None:
        super().__init__(retry_after)
        self.everywhere = everywhere


class DiscordRest(HTTPClient):
    """discord.py's HTTP routes over our own requests. `token` is never part of an address or an error."""

    def __init__(self, token: str, base: str = API) -> None:
        super().__init__(asyncio.get_running_loop())
        self.token = token
        self._base = base.rstrip("/")
        self._web = aiohttp.ClientSession(
            timeout=TIMEOUT, cookie_jar=aiohttp.DummyCookieJar(), ws_response_class=DiscordClientWebSocketResponse
        )
        self._free: dict[str, float] = {}  # when a used-up limit is over, in the loop's time

    async def request(self, route: Route, *, files: Any = None, form: Any = None, **options: Any) -> Any:
        """Raises HTTPException, DiscordRateLimit, aiohttp.ClientError or TimeoutError. `files` is never used by us."""
        bucket = f"{route.key}:{route.major_parameters}"
        self._check(_EVERYWHERE)
        self._check(bucket)
        headers = {"User-Agent": self.user_agent, "Authorization": f"Bot {self.token}"}
        if reason := options.pop("reason", None):
            headers["X-Audit-Log-Reason"] = str(reason)
        if form is not None:
            options["data"] = _form(form)
        url = self._base + route.url.removeprefix(Route.BASE)
        async with self._web.request(
            route.method, yarl.URL(url, encoded=True), headers=headers, allow_redirects=False, **options
        ) as response:
            body = await _body(response)
            self._note(bucket, response.headers)
            if response.status == 429:
                raise self._limited(bucket, response, body)
            if not 200 <= response.status < 300:
                raise HTTPException(response, body)
            return body

    async def ws_connect(self, url: str, *, compress: int = 0) -> aiohttp.ClientWebSocketResponse:
        wait = aiohttp.ClientWSTimeout(ws_close=5.0)
        headers = {"User-Agent": self.user_agent}
        return await self._web.ws_connect(url, max_msg_size=0, autoclose=False, timeout=wait, headers=headers)

    async def chunks(self, url: str) -> AsyncGenerator[bytes, None]:
        """A file of a message. Raises ValueError for another address, else what `request` raises."""
        host = yarl.URL(url).host
        if host not in FILES and host != yarl.URL(self._base).host:
            raise ValueError(f"not an address of Discord's files: {host}")
        async with self._web.get(yarl.URL(url, encoded=True), allow_redirects=False) as response:
            if response.status != 200:
                raise HTTPException(response, "")
            async for chunk in response.content.iter_chunked(CHUNK):
                yield chunk

    async def close(self) -> None:
        await self._web.close()

    def _check(self, bucket: str) -> None:
        """Raises DiscordRateLimit before a request that would only be counted against us."""
        left = self._free.get(bucket, 0.0) - self.loop.time()
        if left > 0:
            raise DiscordRateLimit(left, bucket == _EVERYWHERE)
        self._free.pop(bucket, None)

    def _note(self, bucket: str, headers: Mapping[str, str]) -> None:
        if headers.get("X-RateLimit-Remaining") == "0":
            self._free[bucket] = self.loop.time() + read_seconds(headers.get("X-RateLimit-Reset-After"), 0.0)

    def _limited(self, bucket: str, response: aiohttp.ClientResponse, body: Any) -> DiscordRateLimit:
        told = body.get("retry_after") if isinstance(body, dict) else None
        wait = read_seconds(told if told is not None else response.headers.get("Retry-After"), 5.0)
        everywhere = bool(isinstance(body, dict) and body.get("global")) or "X-RateLimit-Global" in response.headers
        self._free[_EVERYWHERE if everywhere else bucket] = self.loop.time() + wait
        return DiscordRateLimit(wait, everywhere)


class _Connection:
    """What discord.py's socket wants of its cache: nothing is kept here."""

    shard_count = None
    heartbeat_timeout = BEAT
    _activity = None
    _status = None

    def __init__(self, intents: Intents, parsers: EventParsers, made: Callable[[DiscordWebSocket], None]) -> None:
        self._intents = intents
        self.parsers = parsers
        self._made = made

    async def call_hooks(self, name: str, *args: Any, **options: Any) -> None:
        pass

    def _update_references(self, ws: DiscordWebSocket) -> None:
        self._made(ws)


class _Host:
    """What discord.py's socket wants of its client."""

    _enable_debug_events = False

    def __init__(self, rest: DiscordRest, connection: _Connection) -> None:
        self.http = rest
        self.loop = rest.loop
        self._connection = connection

    def dispatch(self, event: str, *args: Any) -> None:
        pass


class DiscordGateway:
    """One session with Discord's gateway, over as many connections as it takes.

    `parsers` are called with each event's JSON, in order. A connection that breaks is taken up again by `open`,
    and Discord then tells what was missed; `lost()` says that it will not.
    """

    def __init__(self, rest: DiscordRest, parsers: EventParsers) -> None:
        self._rest = rest
        self._parsers = parsers
        self._ws: DiscordWebSocket | None = None
        self._kept: tuple[str, int | None, yarl.URL] | None = None  # session, sequence, address

    async def open(self, intents: Intents) -> float:
        """Connect, and take the session up again or begin one. Returns the seconds to wait first when Discord allows
        no new session yet (then nothing was done), else 0."""
        host = cast(Client, _Host(self._rest, _Connection(intents, self._parsers, self._made)))
        if self._kept is not None:
            session, sequence, address = self._kept
            opening = DiscordWebSocket.from_client(
                host, gateway=address, session=session, sequence=sequence, resume=True
            )
        else:
            told = await self._rest.request(Route("GET", "/gateway/bot"))
            limit = told.get("session_start_limit") or {}
            if limit.get("remaining", 1) <= 0:
                return max(float(limit.get("reset_after", 60_000)) / 1000, 1.0)
            opening = DiscordWebSocket.from_client(host, gateway=yarl.URL(told["url"]))
        async with asyncio.timeout(OPENING):
            await opening
        return 0.0

    def _made(self, ws: DiscordWebSocket) -> None:
        """Known from the beginning, so that `close` also ends one that was never open."""
        self._ws = ws

    async def poll(self) -> None:
        """Take one event. Raises ReconnectWebSocket or ConnectionClosed when the connection is over."""
        assert self._ws is not None
        try:
            await self._ws.poll_event()
        except ReconnectWebSocket as exc:
            if not exc.resume or self._ws.socket.close_code in OVER:
                self.forget_session()
            raise
        else:
            if self._ws.session_id is not None:
                self._kept = (self._ws.session_id, self._ws.sequence, self._ws.gateway)

    def forget_session(self) -> None:
        """The session cannot be taken up again."""
        self._kept = None

    async def close(self, code: int = AGAIN) -> None:
        """End the connection; with `LEAVING` also the session."""
        if self._ws is not None:
            await self._ws.close(code)
            self._ws = None


def _form(fields: Any) -> aiohttp.FormData:
    form = aiohttp.FormData(quote_fields=False)  # Discord takes "files[0]" only as it stands
    for field in fields:
        form.add_field(**field)
    return form


async def _body(response: aiohttp.ClientResponse) -> Any:
    text = await response.text("utf-8", "replace")
    if response.content_type != "application/json" or not text:
        return text
    return json.loads(text)
