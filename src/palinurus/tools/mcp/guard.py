"""HTTP to a configured server, and to nobody else: each request is judged by the one network door, and connects to an
address that was judged. No proxies, no other origin, no cookies.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx2

from palinurus.core.types.tool import ToolFailure
from palinurus.tools.mcp.port import McpWatch


class PinnedTransport(httpx2.AsyncBaseTransport):
    """Below the SDK's client. Refuses by httpx2.ConnectError, and says why in `watch.why`."""

    def __init__(self, url: str, judge: Callable[[str], Awaitable[list[str]]], watch: McpWatch) -> None:
        self._origin = _origin(httpx2.URL(url))
        self._judge = judge
        self._watch = watch
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False, retries=0)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer of the judged address."""
        if _origin(request.url) != self._origin:
            raise self._no("it leads to another host than the configured one", request)
        try:
            addresses = await self._judge(str(request.url))
        except ToolFailure as shut:
            raise self._no(str(shut), request) from None
        pinned = httpx2.Request(
            request.method,
            request.url.copy_with(host=addresses[0]),
            headers=request.headers,  # `Host` is the name
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": request.url.host},
        )
        try:
            return await self._inner.handle_async_request(pinned)
        except httpx2.TransportError as error:
            self._watch.why = f"{request.url.host} cannot be reached: {error or type(error).__name__}"
            raise

    def _no(self, why: str, request: httpx2.Request) -> httpx2.ConnectError:
        self._watch.why = why
        return httpx2.ConnectError(why, request=request)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
