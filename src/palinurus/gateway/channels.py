"""/channels/CHANNEL/ACCOUNT: a chat platform calls us. Read within limits, then the channel itself judges the request.

No gateway token is asked for, because platforms cannot send one: the channel checks the platform's signature over the
bytes that were read. Which channels there are is behind the port; nothing is parsed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from palinurus.core.types.channel import ChannelHttpRequest
from palinurus.errors import PalinurusError
from palinurus.gateway import reply
from palinurus.gateway.fault import HttpFault, make_error_fault
from palinurus.gateway.limits import GatewayRateLimit, canonicalize_address
from palinurus.gateway.port import GatewayHost

CHANNEL_BODY = 4 * 1024 * 1024
CHANNEL_SECONDS = 10.0  # for the whole body
RATE = 6000  # requests a minute, per address; a platform, or the proxy before us, is one address
AT_ONCE = 32  # bodies being read or judged; more are told to come again

_BUSY = HttpFault(503, "too many requests at once", code="busy", headers={"Retry-After": "1"}, retry=True, close=True)
_LARGE = HttpFault(413, f"at most {CHANNEL_BODY:,} bytes are taken", code="too_large", close=True)
_LATE = HttpFault(408, "the body did not arrive in time", code="late", close=True)
_BROKEN = HttpFault(400, "the body is broken", code="broken", close=True)
_NOWHERE = HttpFault(404, "there is no such channel or account", "not_found", code="not_found", close=True)


class ChannelEndpoint:
    """The door of the platforms. Wrong signatures lock nobody out: behind a proxy all callers share one address."""

    def __init__(self, monotonic: Callable[[], float], rate: int = RATE, seconds: float = CHANNEL_SECONDS) -> None:
        self._pace = GatewayRateLimit(monotonic, rate)
        self._seconds = seconds
        self._inside = 0

    async def answer(
        self, request: web.BaseRequest, channel: str, account: str, address: str, host: GatewayHost
    ) -> web.Response | HttpFault:
        """What the platform is told. Busy, draining and a full disk are 429, 503 and 507: platforms try again."""
        wait = self._pace.step(canonicalize_address(address))
        if wait > 0:
            headers = {"Retry-After": str(int(wait) + 1)}
            return HttpFault(429, "too many requests", "rate_limit_error", code="rate", headers=headers, close=True)
        if self._inside >= AT_ONCE:
            return _BUSY
        self._inside += 1
        try:
            return await self._judged(request, channel, account, host)
        finally:
            self._inside -= 1

    async def _judged(
        self, request: web.BaseRequest, channel: str, account: str, host: GatewayHost
    ) -> web.Response | HttpFault:
        body = await self._body(request)
        if isinstance(body, HttpFault):
            return body
        headers = {key.lower(): ", ".join(request.headers.getall(key)) for key in request.headers}
        try:
            said = await host.hook(
                channel, account, ChannelHttpRequest(request.method, headers, dict(request.query), body)
            )
        except PalinurusError as exc:
            return make_error_fault(exc)
        if said is None:
            return _NOWHERE
        kind, _, rest = said.content_type.partition(";")
        response = reply.reply_bytes(said.body, kind.strip(), said.status)
        if "charset=" in rest:
            response.charset = rest.partition("charset=")[2].strip()
        return response

    async def _body(self, request: web.BaseRequest) -> bytes | HttpFault:
        if (request.content_length or 0) > CHANNEL_BODY:
            return _LARGE
        data = bytearray()
        try:
            async with asyncio.timeout(self._seconds):
                async for chunk in request.content.iter_any():
                    data += chunk
                    if len(data) > CHANNEL_BODY:
                        return _LARGE
        except TimeoutError:
            return _LATE
        except web.RequestPayloadError:
            return _BROKEN
        return bytes(data)
