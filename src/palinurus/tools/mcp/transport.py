"""What requests to a server elsewhere go through, below the SDK: the gate for outgoing fetches, and the sign-in.

A token is sent to the configured host only; one that is refused is renewed once. Why a server says no is kept in
`watch.why`, as a sentence with what helps.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import httpx2

from palinurus.config.sections.mcp import McpServerSettings
from palinurus.core.signin.discover import read_challenge
from palinurus.core.types.tool import ToolFailure
from palinurus.core.untrusted import clean_label
from palinurus.tools.mcp import port

_PHRASES = {one.value: one.phrase for one in HTTPStatus}
_HINTS = {
    403: "it does not let us in: is the credential right?",
    404: "is the address right? (`pal mcp list`)",
    405: "is the address right, and the way of speaking? (transport: http or sse)",
    429: "it is asked too often; it is tried again later",
}


class PinnedTransport(httpx2.AsyncBaseTransport):
    """HTTP to a configured server and nobody else, below the SDK's client: each request is judged by the egress guard
    and goes to an address that was judged. Refuses by httpx2.ConnectError, and says why in `watch.why`."""

    def __init__(
        self,
        url: str,
        judge: Callable[[str], Awaitable[list[str]]],
        watch: port.McpWatch,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        self._origin = _origin(httpx2.URL(url))
        self._judge = judge
        self._watch = watch
        self._inner = httpx2.AsyncHTTPTransport(verify=verify, trust_env=False, retries=0)

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


class SignedTransport(httpx2.AsyncBaseTransport):
    """With the token of who signed in, unless the config brings a credential of its own."""

    def __init__(
        self, inner: PinnedTransport, server: McpServerSettings, tokens: port.McpTokens | None, watch: port.McpWatch
    ) -> None:
        own = any(name.lower() == "authorization" for name in server.headers)
        self._inner, self._server, self._watch = inner, server, watch
        self._own = own or bool(server.oauth.grant)
        self._tokens = None if own else tokens
        self._nonce = ""  # what the server wants in the next proof

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer. Where there is no good token, what a server would answer that was asked without."""
        try:
            response = await self._signed(request)
        except ToolFailure as ended:
            self._watch.why, self._watch.locked = str(ended), True
            return httpx2.Response(401, request=request)
        if response.status_code >= 400 and (request.method, response.status_code) != ("GET", 405):
            self._explain(response)
        return response

    async def _signed(self, request: httpx2.Request) -> httpx2.Response:
        token = await self._tokens.get(self._server) if self._tokens is not None else ""
        response = await self._send(request, token)
        if response.status_code != 401 or not token or self._tokens is None:
            return response
        await response.aclose()
        fresh = await self._tokens.get(self._server, refused=token)
        return await self._send(request, fresh)

    async def _send(self, request: httpx2.Request, token: str) -> httpx2.Response:
        """Once more where the server wants another nonce in the proof: then it has done nothing."""
        response = await self._inner.handle_async_request(self._sign(request, token))
        known, self._nonce = self._nonce, response.headers.get("DPoP-Nonce", "") or self._nonce
        said = read_challenge(response.headers.get("WWW-Authenticate", "")) if response.status_code == 401 else {}
        if said.get("error") != "use_dpop_nonce" or self._nonce == known:
            return response
        await response.aclose()
        return await self._inner.handle_async_request(self._sign(request, token))

    def _sign(self, request: httpx2.Request, token: str) -> httpx2.Request:
        if token and self._tokens is not None:
            url = str(request.url)
            proof = self._tokens.prove(self._server, token, request.method, url, nonce=self._nonce)
            request.headers["Authorization"] = f"{'DPoP' if proof else 'Bearer'} {token}"
            if proof:
                request.headers["DPoP"] = proof
        return request

    def _explain(self, response: httpx2.Response) -> None:
        status, name = response.status_code, self._server.name
        said = read_challenge(response.headers.get("WWW-Authenticate", ""))
        hint = _HINTS.get(status, "")
        if status == 401:
            self._watch.locked = not self._own
            hint = f"it wants a sign-in: `pal mcp login {name}`"
            if self._own:
                hint = "it does not take the credential of the config (headers.Authorization, or oauth)"
        elif status == 403 and said.get("error") == "insufficient_scope" and self._tokens is not None:
            scope = clean_label(said.get("scope", ""), 200)
            self._tokens.note_scope(self._server, scope)
            self._watch.narrow = True
            hint = f"it wants more rights than the sign-in has ({scope}): `pal mcp login {name}` asks for them"
        words = f"{status} {_PHRASES.get(status, '')}".strip()
        self._watch.why = f"it answers HTTP {words}{f'; {hint}' if hint else ''}"

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
