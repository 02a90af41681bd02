"""A fake OAuth server on 127.0.0.1 that expires, rotates and revokes: code with PKCE, device codes (RFC 8628, and the
one whose answer is a code to be traded), renewal, short-lived tokens for lasting ones, revocation, and what tool
servers are discovered by (metadata, registration).

`async with FakeOAuth() as oauth:` … `oauth.browse(url)` is the person in the browser who says yes.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
import msgspec
from aiohttp import web

from palinurus.testing.loopback import LoopbackHttp, abort_connection

CLIENT = "fake-client"
EMAIL = "ada@example.org"


def make_jwt(claims: dict[str, Any]) -> str:
    """A token that says something, signed by nobody."""
    parts = ({"alg": "none"}, claims)
    whole = (base64.urlsafe_b64encode(msgspec.json.encode(part)).decode().rstrip("=") for part in parts)
    return ".".join((*whole, "sig"))


class FakeOAuth:
    """`polls` says what a device hears, one word a question, then yes. `life` is that of tokens in seconds. `cut`: so
    many renewals are done and their answers lost. `gate`: while not set nobody gets a token."""

    def __init__(self, polls: Iterable[str] = (), *, life: int = 3600, now: Callable[[], int] = lambda: 0) -> None:
        self.polls = list(polls)
        self.life = life
        self.now = now  # ms, for short-lived tokens
        self.cut = 0
        self.down = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.made = 0
        self.grants: list[str] = []  # grant types, as they were asked
        self.forms: list[dict[str, str]] = []
        self.valid: set[str] = set()  # access tokens
        self.lasting: set[str] = set()  # refresh tokens, and what is traded for short-lived ones
        self.revoked: list[str] = []
        self.registered: list[dict[str, Any]] = []
        self.scopes: set[str] = set()  # what `guarded` methods of the tool server need besides a token
        self.guarded = {"tools/call"}
        self.greets = False  # the tool server shakes hands with anybody
        self.wants = ""  # the scope that it names when it refuses
        self.granted: dict[str, str] = {}  # access token -> scopes
        self.called: list[str] = []  # methods that the tool server was asked, with a token that it took
        self._codes: dict[str, dict[str, str]] = {}
        self._http = LoopbackHttp(
            {
                "GET /authorize": self._authorize,
                "POST /token": self._token,
                "POST /device": self._device,
                "POST /usercode": self._usercode,
                "POST /poll": self._poll,
                "GET /exchange": self._exchange,
                "POST /revoke": self._revoke,
                "POST /register": self._register,
                "POST /mcp": self._mcp,
                "GET /mcp": self._mcp,
                "DELETE /mcp": self._mcp,
                "GET /.well-known/oauth-protected-resource": self._resource,
                "GET /.well-known/oauth-protected-resource/mcp": self._resource,
                "GET /.well-known/oauth-authorization-server": self._server,
            }
        )

    @property
    def url(self) -> str:
        return self._http.url

    def make_config(self, *, device: str = "", exchange: bool = False) -> dict[str, str]:
        """`models.providers.<id>.signIn` that leads here. `device`: "rfc" or "code"."""
        urls = {"tokenUrl": "token", "authorizeUrl": "authorize", "revokeUrl": "revoke"}
        urls |= {"rfc": {"deviceUrl": "device"}, "code": {"deviceUrl": "usercode", "pollUrl": "poll"}}.get(device, {})
        urls |= {"exchangeUrl": "exchange"} if exchange else {}
        return {"clientId": CLIENT, **{name: f"{self.url}/{path}" for name, path in urls.items()}}

    def accepts(self, header: str) -> bool:
        """Would this Authorization header be taken?"""
        return header.removeprefix("Bearer ") in self.valid

    def expire(self) -> None:
        """Every access token ends now, whatever was said of it."""
        self.valid.clear()

    def revoke_all(self) -> None:
        """Nothing that was ever given out is worth anything."""
        self.valid.clear()
        self.lasting.clear()

    async def browse(self, url: str, *, state: str = "", follow: bool = True) -> str:
        """A person opens the page and says yes. Where the browser ends; with `follow` it goes there."""
        async with aiohttp.ClientSession() as session:
            async with session.get(url, allow_redirects=False) as answer:
                back = answer.headers["Location"]
            if state:
                back = back.replace(f"state={parse_qs(urlsplit(back).query)['state'][0]}", f"state={state}")
            if follow:
                async with session.get(back) as answer:
                    await answer.read()
        return back

    async def __aenter__(self) -> FakeOAuth:
        await self._http.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._http.stop()

    def make_tokens(self) -> dict[str, Any]:
        """A new pair, as the token endpoint sends it."""
        self.made += 1
        access, refresh = f"access-canary-{self.made:04d}", f"refresh-canary-{self.made:04d}"
        self.valid.add(access)
        self.lasting.add(refresh)
        told = {"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": self.life}
        return told | {"id_token": make_jwt({"email": EMAIL})}

    async def _authorize(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        code = f"code-{len(self._codes)}"
        self._codes[code] = asked
        back = urlencode({"code": code, "state": asked.get("state", ""), "iss": self.url})
        return web.Response(status=302, headers={"Location": f"{asked['redirect_uri']}?{back}"})

    async def _token(self, request: web.Request) -> web.StreamResponse:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.forms.append(form)
        self.grants.append(form.get("grant_type", ""))
        await self.gate.wait()
        if self.down:
            return web.Response(status=503)
        if form.get("grant_type") == "authorization_code":
            return self._trade(form)
        if form.get("grant_type") == "refresh_token":
            old = form.get("refresh_token", "")
            if old not in self.lasting:
                return _refuse("invalid_grant", 400)
            self.lasting.discard(old)  # rotated: used once
            told = self.make_tokens()
            if self.cut:
                self.cut -= 1
                return abort_connection(request)
            return web.json_response(told)
        word = self.polls.pop(0) if self.polls else ""
        if word:
            return _refuse(word, 400, interval=12) if word == "slow_down" else _refuse(word, 400)
        return web.json_response(self.make_tokens())

    def _trade(self, form: dict[str, str]) -> web.Response:
        asked = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or asked.get("code_challenge") != proof or asked["redirect_uri"] != form.get("redirect_uri"):
            return _refuse("invalid_grant", 400)
        told = self.make_tokens()
        self.granted[told["access_token"]] = asked.get("scope", "")
        return web.json_response(told)

    async def _device(self, request: web.Request) -> web.Response:
        told = {"device_code": "device-1", "user_code": "WDJB-MJHT", "verification_uri": f"{self.url}/activate"}
        return web.json_response(told | {"expires_in": 900, "interval": 1})

    async def _usercode(self, request: web.Request) -> web.Response:
        return web.json_response({"device_auth_id": "device-2", "user_code": "ABCD-EFGH", "interval": "1"})

    async def _poll(self, request: web.Request) -> web.Response:
        if self.polls:
            self.polls.pop(0)
            return web.json_response({"error": {"message": "not yet"}}, status=403)
        verifier = "v" * 50
        proof = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        # as the vendor does it: the code was made for the vendor's own redirect
        self._codes["code-device"] = {
            "code_challenge": proof,
            "redirect_uri": "https://auth.openai.com/deviceauth/callback",
        }
        return web.json_response(
            {"authorization_code": "code-device", "code_challenge": proof, "code_verifier": verifier}
        )

    async def _exchange(self, request: web.Request) -> web.Response:
        self.grants.append("exchange")
        lasting = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if lasting not in self.lasting | self.valid:
            return web.json_response({"message": "Bad credentials"}, status=401)
        self.lasting.add(lasting)
        self.made += 1
        token = f"short-canary-{self.made:04d}"
        self.valid.add(token)
        return web.json_response({"token": token, "expires_at": self.now() // 1000 + self.life, "sku": "trial"})

    async def _revoke(self, request: web.Request) -> web.Response:
        token = str((await request.post()).get("token", ""))
        self.revoked.append(token)
        self.lasting.discard(token)
        self.valid.discard(token)
        return web.Response()

    async def _register(self, request: web.Request) -> web.Response:
        told = await request.json()
        self.registered.append(told)
        return web.json_response({**told, "client_id": f"registered-{len(self.registered)}"}, status=201)

    async def _mcp(self, request: web.Request) -> web.Response:
        """A tool server that wants a token, and for calls perhaps a scope."""
        where = f'Bearer resource_metadata="{self.url}/.well-known/oauth-protected-resource/mcp"'
        token = request.headers.get("Authorization", "").partition(" ")[2]
        asked = await request.json() if request.method == "POST" else {}
        method = str(asked.get("method"))
        if token not in self.valid and not (self.greets and method in ("initialize", "notifications/initialized")):
            said = f'{where}, error="invalid_token"' + (f', scope="{self.wants}"' if self.wants else "")
            return web.json_response({}, status=401, headers={"WWW-Authenticate": said})
        if request.method != "POST":
            return web.Response(status=405)
        self.called.append(method)
        if "id" not in asked:
            return web.Response(status=202)
        lacking = self.scopes - set(self.granted.get(token, "").split())
        if method in self.guarded and lacking:
            said = f'{where}, error="insufficient_scope", scope="{" ".join(sorted(lacking))}"'
            return web.json_response({}, status=403, headers={"WWW-Authenticate": said})
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "result": _serve_tools(method, asked)})

    async def _resource(self, request: web.Request) -> web.Response:
        return web.json_response({"resource": f"{self.url}/mcp", "authorization_servers": [self.url]})

    async def _server(self, request: web.Request) -> web.Response:
        paths = {"authorization": "authorize", "token": "token", "registration": "register", "revocation": "revoke"}
        paths["device_authorization"] = "device"
        told: dict[str, Any] = {f"{name}_endpoint": f"{self.url}/{path}" for name, path in paths.items()}
        told |= {"issuer": self.url, "code_challenge_methods_supported": ["S256"], "scopes_supported": ["tools"]}
        return web.json_response(told | {"token_endpoint_auth_methods_supported": ["none"]})


def _serve_tools(method: str, asked: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        told = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}}
        return told | {"serverInfo": {"name": "far", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": "ping", "description": "Answers.", "inputSchema": {"type": "object"}}]}
    return {"content": [{"type": "text", "text": "pong"}]}


def _refuse(word: str, status: int, **more: Any) -> web.Response:
    return web.json_response({"error": word, **more}, status=status)
