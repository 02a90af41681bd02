"""Where one signs in to a tool server, found out from its address: protected-resource metadata (RFC 9728), the
authorization server's (RFC 8414, OpenID), registration of a client (RFC 7591). A machine like those in `flow`. Pure.

All of it is written by others: addresses must be https (or on this machine), the issuer must be the one that was asked,
and what is signed in to must be the server itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from palinurus.core.signin.flow import DEVICE_GRANT, read_object
from palinurus.core.types.signin import OAuthAnswer, OAuthAsk, SignInFailure, SignInRow
from palinurus.patterns import compile_late

HERE = ("127.0.0.1", "::1", "localhost")
_RESOURCE = "/.well-known/oauth-protected-resource"
_SERVER, _OPENID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
_FIELD = compile_late(r'(\w+)=(?:"([^"]*)"|([^\s,]+))')
_LONGEST = 2000  # characters of an address
NO_CLIENT = (
    "this server takes only programs that were registered there by hand: make a client on its pages and write its name "
    "into the config (mcp.servers.….oauth.clientId)"
)


class DiscoveryClient(msgspec.Struct, frozen=True):
    """As whom we come: a client that the owner registered (`id`), else one to be registered for `redirect`."""

    id: str = ""
    secret: str = ""
    scope: str = ""  # what the owner wants asked for, whatever the server names
    port: int = 0  # of the address that the browser comes back to

    @property
    def redirect(self) -> str:
        return f"http://127.0.0.1:{self.port}/callback"


def read_challenge(header: str) -> dict[str, str]:
    """The parameters of a WWW-Authenticate header."""
    return {name.lower(): quoted or plain for name, quoted, plain in _FIELD.findall(header)}


def is_fit_address(url: object) -> bool:
    """An address that a token may be sent to, or a person: https, or this machine."""
    if not isinstance(url, str) or len(url) > _LONGEST:
        return False
    try:
        at = urlsplit(url)
        return bool(at.hostname) and (at.scheme == "https" or (at.scheme == "http" and at.hostname in HERE))
    except ValueError:
        return False


def covers_resource(resource: str, url: str) -> bool:
    """Is a token for `resource` one for the server at `url`? The same host, and a path that leads there."""
    told, ours = urlsplit(resource), urlsplit(url)
    if (told.scheme, told.netloc.lower()) != (ours.scheme, ours.netloc.lower()):
        return False
    return f"{ours.path.rstrip('/')}/".startswith(f"{told.path.rstrip('/')}/")


def join_scopes(*scopes: str) -> str:
    """All words, each once."""
    return " ".join(dict.fromkeys(word for one in scopes for word in one.split()))


class DiscoveryFlow:
    """`ask` until `done`: the row to sign in with. `challenge` is what the server said when it refused us."""

    def __init__(self, url: str, challenge: str, client: DiscoveryClient) -> None:
        self._url, self._client = url, client
        said = read_challenge(challenge)
        self._scope = said.get("scope", "")
        self.done: SignInRow | SignInFailure | None = None
        self.ask: OAuthAsk | None = None
        at = urlsplit(url)
        self._origin = f"{at.scheme}://{at.netloc}"
        path = at.path.rstrip("/")
        named = said.get("resource_metadata", "")
        tried = [named] if is_fit_address(named) else []
        self._rest = [*tried, *([f"{self._origin}{_RESOURCE}{path}"] if path else []), f"{self._origin}{_RESOURCE}"]
        self._row = SignInRow(resource=url)
        self._issuer = self._origin
        self._alone = True  # the server says nothing of another one that signs people in
        self._methods: list[str] | None = None
        self._take: Callable[[int, dict[str, Any]], None] = self._take_resource
        self._next()

    def feed(self, answer: OAuthAnswer) -> None:
        """What came for `ask`."""
        if self.done is None and self.ask is not None:
            self._take(answer.status, read_object(answer.body))

    def _next(self) -> None:
        headers = {"Accept": "application/json", "MCP-Protocol-Version": "2025-11-25"}
        self.ask = OAuthAsk(self._rest.pop(0), None, headers)

    def _fail(self, reason: str) -> None:
        self.ask, self.done = None, SignInFailure(reason)

    def _take_resource(self, status: int, told: dict[str, Any]) -> None:
        servers = told.get("authorization_servers")
        if status != 200 or not isinstance(servers, list) or not servers:
            if self._rest:
                self._next()
            else:
                self._row = SignInRow()  # nor does it know what a token for one server is
                self._look_for_server()
            return
        resource = told.get("resource")
        if not isinstance(resource, str) or not covers_resource(resource, self._url):
            self._fail("what it says about signing in is about another server (resource)")
            return
        if not is_fit_address(servers[0]):
            self._fail("the server that signs people in has no https address")
            return
        self._issuer, self._alone = str(servers[0]), False
        listed = told.get("scopes_supported")
        self._scope = self._scope or (" ".join(map(str, listed[:50])) if isinstance(listed, list) else "")
        self._row = msgspec.structs.replace(self._row, resource=resource)
        self._look_for_server()

    def _look_for_server(self) -> None:
        at = urlsplit(self._issuer)
        base, path = f"{at.scheme}://{at.netloc}", at.path.rstrip("/")
        self._rest = [f"{base}{_SERVER}{path}", f"{base}{_OPENID}{path}"]
        self._rest += [f"{base}{path}{_OPENID}"] if path else []
        self._take = self._take_server
        self._next()

    def _take_server(self, status: int, told: dict[str, Any]) -> None:
        if status != 200 or not told.get("token_endpoint"):
            if self._rest:
                self._next()
            elif self._alone and status:  # the oldest revision: where everything is was agreed upon
                paths = {"authorization": "authorize", "token": "token", "registration": "register"}
                made: dict[str, Any] = {f"{name}_endpoint": f"{self._origin}/{path}" for name, path in paths.items()}
                self._take_endpoints(made | {"code_challenge_methods_supported": ["S256"]})
            else:
                self._fail("how to sign in there cannot be found out" if status else "the server cannot be reached")
            return
        named = str(told.get("issuer", ""))
        # a server that signs people in itself (the oldest revision) may call itself by any path of its own
        own = self._alone and urlsplit(named)[:2] == urlsplit(self._origin)[:2]
        if named.rstrip("/") != self._issuer.rstrip("/") and not own:
            self._fail("the server that signs people in calls itself by another name (issuer)")
        else:
            self._issuer = str(told["issuer"])
            self._take_endpoints(told)

    def _take_endpoints(self, told: dict[str, Any]) -> None:
        methods = told.get("code_challenge_methods_supported")
        if not isinstance(methods, list) or "S256" not in methods:
            self._fail("its sign-in cannot be held against theft (no PKCE with S256), so it is not used")
            return
        names = {"token_url": "token", "authorize_url": "authorization", "revoke_url": "revocation"}
        names["device_url"] = "device_authorization"
        ends = {field: told.get(f"{name}_endpoint") for field, name in names.items()}
        if not all(is_fit_address(ends[field]) for field in ("token_url", "authorize_url")):
            self._fail("it names no https address to sign in at")
            return
        offered = told.get("scopes_supported")
        lasting = "offline_access" if isinstance(offered, list) and "offline_access" in offered else ""
        scope, kinds = self._client.scope or self._scope, told.get("dpop_signing_alg_values_supported")
        self._row = msgspec.structs.replace(
            self._row,
            **{field: url for field, url in ends.items() if is_fit_address(url)},
            issuer=self._issuer,
            binds=isinstance(kinds, list) and "ES256" in kinds,
            names_issuer=told.get("authorization_response_iss_parameter_supported") is True,
            scope=join_scopes(scope, lasting) if scope else "",
            port=self._client.port,
        )
        found = told.get("token_endpoint_auth_methods_supported")
        self._methods = [str(one) for one in found] if isinstance(found, list) else None
        self._choose_client(told.get("registration_endpoint"))

    def _choose_client(self, register: object) -> None:
        if self._client.id:
            method = "none" if not self._client.secret else ""
            self._end(self._client.id, self._client.secret, method)
        elif not is_fit_address(register):
            self._fail(NO_CLIENT)
        else:
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            self._take = self._take_client
            self.ask = OAuthAsk(str(register), msgspec.json.encode(self._describe_client()), headers)

    def _describe_client(self) -> dict[str, Any]:
        grants = ["authorization_code", "refresh_token", *([DEVICE_GRANT] if self._row.device_url else [])]
        known = ("none", "client_secret_basic", "client_secret_post")
        method = next((one for one in known if one in (self._methods or ())), "")
        return {
            "client_name": "Palinurus",
            "application_type": "native",
            "redirect_uris": [self._client.redirect],
            "grant_types": grants,
            "response_types": ["code"],
            **({"token_endpoint_auth_method": method} if method else {}),
            **({"scope": self._row.scope} if self._row.scope else {}),
        }

    def _take_client(self, status: int, told: dict[str, Any]) -> None:
        ident, secret = told.get("client_id"), told.get("client_secret")
        if status not in (200, 201) or not isinstance(ident, str) or not ident:
            self._fail(f"it did not take us as a client (HTTP {status}); {NO_CLIENT}")
            return
        self._end(ident, secret if isinstance(secret, str) else "", str(told.get("token_endpoint_auth_method") or ""))

    def _end(self, ident: str, secret: str, method: str) -> None:
        if not method:  # RFC 7591: who has a secret and is told nothing names itself in the header
            usual = not self._methods or "client_secret_basic" in self._methods
            method = "client_secret_basic" if usual else "client_secret_post"
        secret = "" if method == "none" else secret
        basic = bool(secret) and method == "client_secret_basic"
        self.done = msgspec.structs.replace(self._row, client_id=ident, client_secret=secret, basic=basic)
        self.ask = None
