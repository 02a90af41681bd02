"""Signing in to tool servers (MCP): found out from the server's address, kept and renewed as sign-ins of vendors are.

A token goes to the server it was made for and to no other: who changes a server's address signs in again.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping

import msgspec

from palinurus import late
from palinurus.clock import Clock
from palinurus.config.secrets import Secret
from palinurus.config.sections.mcp import McpOAuthSettings, McpServerSettings
from palinurus.config.settings import Settings
from palinurus.core.policy.address import OpenHosts, UrlParts, parse_url
from palinurus.core.signin.discover import DiscoveryClient, DiscoveryFlow, join_scopes
from palinurus.core.signin.flow import TokenFlow, read_object
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.signin import OAuthAnswer, OAuthAsk, SignInFailure, SignInRow, TokenSet
from palinurus.core.types.tool import ToolFailure
from palinurus.errors import BadRequest, NotFound
from palinurus.files import read_plain_file
from palinurus.providers.signin.renew import CLIENT_FIELDS, MARGIN, SignInFetch, TokenKeeper, drive_flow, find_row
from palinurus.providers.signin.vault import MCP, KeptSignIn, SignInVault, make_profile, name_login
from palinurus.services.signins import RunningSignIn, SignInTable, make_signin_fetch
from palinurus.tools.web.egress import EgressGuard

# What a server that wants a sign-in answers with 401, and says where. Some greet anybody, and refuse the rest.
_KNOCKS = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"palinurus","version":"0"}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
)
LONGEST = 100_000  # bytes of a file with a token
_EXCHANGE = {
    "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
    "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
    "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
}
_SPEAKS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def open_server_hosts(settings: Settings) -> OpenHosts:
    """The hosts that the owner wrote into the config."""
    servers = settings.mcp.servers.values()
    spots = (parse_url(url) for one in servers for url in (one.url.reveal(), one.oauth.idp_url) if url)
    return OpenHosts(frozenset(one.entry for one in spots if isinstance(one, UrlParts)))


class McpSignIns(SignInTable):
    """One per program; also what connections take their tokens from (`tools.mcp.port.McpTokens`)."""

    def __init__(self, settings: Settings, vault: SignInVault, guard: EgressGuard, clock: Clock) -> None:
        rules = settings.web.fetch.rules.join(open_server_hosts(settings))
        super().__init__(vault, make_signin_fetch(guard, rules), clock)
        self._servers, self.servers = settings.mcp.servers, True
        self._keeper = TokenKeeper(
            vault, lambda _, kept: find_row(None, None, kept), self.fetch, clock, prove=self._prove
        )
        self._own, self._asking = dict[str, TokenSet](), asyncio.Lock()  # where no person signs in; not kept
        self._keys: dict[str, str] = {}  # what those are bound to, where a server binds them
        self.signed_in: Callable[[str], None] = lambda name: None  # told of a server that can be spoken to now

    async def start(
        self, name: str, *, device: bool = False, profile: str = "", client: Mapping[str, str] | None = None
    ) -> RunningSignIn:
        """Find out where, and begin. `client`: client_id, client_secret, scope. Raises NotFound, BadRequest."""
        server, said = self._find(name), dict(client or {})
        old = self._kept(server)
        wants = join_scopes(old.client.get("scope", ""), old.client["wants"]) if old and old.client.get("wants") else ""
        who = DiscoveryClient(
            said.get("client_id") or server.oauth.client_id,
            said.get("client_secret") or server.oauth.client_secret.reveal(),
            said.get("scope") or wants or server.oauth.scope,
            server.oauth.port or _find_free_port(),
        )
        row = await self._discover(server, who)
        kept = {field: getattr(row, field) for field in CLIENT_FIELDS if getattr(row, field)}
        kept |= {"client_secret": row.client_secret, "basic": "1" if row.basic else ""}
        kept |= {"url": server.place, "proof_key": _make_key() if row.binds else ""}
        return await self.begin(f"{MCP}{name}", f"{MCP}{name}", row, kept, device=device)

    async def sign_out(self, name: str, profile: str = "") -> list[str]:
        """Revoke where that can be told, and forget. Raises NotFound, OSError."""
        if told := await self.leave(lambda one, kept: find_row(None, None, kept) if one == f"{MCP}{name}" else None):
            return told
        raise NotFound(f"nobody is signed in to the MCP server {name!r}", fix="`pal mcp status` lists who is")

    def tell(self, going: RunningSignIn) -> None:
        """The server is tried again at once."""
        self.signed_in(going.provider.removeprefix(MCP))

    def has(self, server: McpServerSettings) -> bool:
        """Is there a sign-in that may still work?"""
        return (kept := self._kept(server)) is not None and not kept.out

    async def get(self, server: McpServerSettings, refused: str = "") -> str:
        """A token that is good for a while and is not the `refused` one; "": nobody signed in. Raises ToolFailure."""
        if server.oauth.grant:
            return await self._get_own(server, refused)
        kept, now = self._kept(server), self._clock.now()
        if kept is None:
            return ""
        if kept.out:
            raise ToolFailure(f"the sign-in to {server.name} ended: {kept.out}; {name_login(kept.provider)}")
        other = kept.access != refused
        if other and (not kept.expires or kept.expires - MARGIN > now):
            return kept.access
        try:
            got = await self._keeper.renew(make_profile(f"{MCP}{server.name}", kept))
        except OSError as error:
            raise ToolFailure(f"the renewed sign-in to {server.name} cannot be kept: {error}") from None
        if not isinstance(got, ModelFailure):
            return got.secret.reveal()
        if other and got.kind == "network" and kept.expires > now:
            return kept.access  # still good for a moment
        raise ToolFailure(f"the sign-in to {server.name} does not work: {got.message.removeprefix(MCP)}")

    async def _get_own(self, server: McpServerSettings, refused: str) -> str:
        oauth, name = server.oauth, server.name
        who = DiscoveryClient(oauth.client_id, oauth.client_secret.reveal(), oauth.scope)
        async with self._asking:
            held = self._own.get(name, TokenSet(refused))
            if held.access != refused and (not held.expires or held.expires - MARGIN > self._clock.now()):
                return held.access
            try:
                row = await self._discover(server, who)
                shown = await self._fetch_assertion(oauth, row)
                form = late.load_part("mcp-grant")(shown, row.issuer, self._clock.now() // 1000)
            except (BadRequest, OSError, ValueError) as error:
                raise ToolFailure(f"no token for {name} (mcp.servers.{name}.oauth): {error}") from None
            key = self._keys[name] = self._keys.get(name) or _make_key() if row.binds else ""
            fetch = self._prove(key) if key else self.fetch
            done = await drive_flow(TokenFlow(row, form), fetch, self._clock)
            if isinstance(done, SignInFailure):
                raise ToolFailure(f"no token for {name} (mcp.servers.{name}.oauth): {done.reason}")
            self._own[name] = done
            return done.access

    async def _fetch_assertion(self, oauth: McpOAuthSettings, row: SignInRow) -> McpOAuthSettings:
        """With the token that says who we are at the server's side, as it is now: of a file, or what the company's
        identity provider gives for it (ID-JAG), which is for this one server. Raises OSError, ValueError."""
        if oauth.assertion_file:
            found = await asyncio.to_thread(read_plain_file, os.path.realpath(oauth.assertion_file), LONGEST)
            oauth = msgspec.structs.replace(oauth, assertion=Secret(found.decode().strip()))
        if oauth.grant != "enterprise":
            return oauth
        there = SignInRow(oauth.idp_url, oauth.idp_client, oauth.idp_secret.reveal(), scope=row.scope)
        form = {**_EXCHANGE, "audience": row.issuer, "subject_token": oauth.assertion.reveal()}
        flow = TokenFlow(msgspec.structs.replace(there, resource=row.resource), form)
        done = await drive_flow(flow, self.fetch, self._clock)
        if isinstance(done, SignInFailure):
            raise ValueError(f"the identity provider: {done.reason}")
        return msgspec.structs.replace(oauth, assertion=Secret(done.access))

    def choose_fetch(self, client: Mapping[str, str]) -> SignInFetch:
        key = client.get("proof_key", "")
        return self._prove(key) if key else self.fetch

    def prove(self, server: McpServerSettings, token: str, method: str, url: str, *, nonce: str = "") -> str:
        """What shows, with one request, that the token is ours; "": it is not bound to a key."""
        own, kept = self._own.get(server.name), None if server.oauth.grant else self._kept(server)
        key = kept.proof_key if kept is not None else self._keys[server.name] if own is not None and own.bound else ""
        return _sign(key, method, url, self._clock, token=token, nonce=nonce) if key else ""

    def _prove(self, key: str) -> SignInFetch:
        """Asks with a proof that the key is ours, once more with the nonce that the server wants in it."""
        nonce = ""

        async def fetch(ask: OAuthAsk) -> OAuthAnswer:
            nonlocal nonce
            for last in (False, True):
                proof = _sign(key, "GET" if ask.body is None else "POST", ask.url, self._clock, nonce=nonce)
                answer = await self.fetch(msgspec.structs.replace(ask, headers={**ask.headers, "DPoP": proof}))
                known, nonce = nonce, answer.nonce or nonce
                if last or nonce == known or read_object(answer.body).get("error") != "use_dpop_nonce":
                    break
            return answer

        return fetch

    def note_scope(self, server: McpServerSettings, scope: str) -> None:
        """The server wants more rights than the sign-in has: the next one asks for them."""
        kept = self._kept(server)
        if kept is not None and kept.client.get("wants") != scope[:2000]:
            client = {**kept.client, "wants": scope[:2000]}
            self.vault.put(f"{MCP}{server.name}", msgspec.structs.replace(kept, client=client))

    def _kept(self, server: McpServerSettings) -> KeptSignIn | None:
        kept = self.vault.list_all().get(f"{MCP}{server.name}")
        return kept if kept is not None and kept.client.get("url") == server.place else None

    def _find(self, name: str) -> McpServerSettings:
        server = self._servers.get(name)
        if server is None:
            raise NotFound(f"there is no MCP server {name!r}", fix="`pal mcp list`")
        if server.command or server.oauth.grant:
            raise BadRequest(
                f"{name} is a program on this machine or has oauth.grant: no sign-in", fix="`pal mcp test`"
            )
        return server

    async def _discover(self, server: McpServerSettings, who: DiscoveryClient) -> SignInRow:
        url = server.url.reveal()
        headers = {name: value.reveal() for name, value in server.headers.items()}
        first, second = [await self.fetch(OAuthAsk(url, words, {**headers, **_SPEAKS})) for words in _KNOCKS]
        knock = second if second.status == 401 else first
        if not knock.status:
            raise BadRequest(
                f"{server.place} cannot be reached: {knock.body.decode('utf-8', 'replace')[:300]}",
                fix="is it running, and is its address right? `pal mcp list` shows it",
            )
        flow = DiscoveryFlow(url, knock.challenge, who)
        while flow.ask is not None:
            flow.feed(await self.fetch(flow.ask))
        if isinstance(flow.done, SignInRow):
            return flow.done
        assert isinstance(flow.done, SignInFailure)
        if knock.status < 400:
            raise BadRequest(f"{server.name} answers without a sign-in", fix=f"`pal mcp test {server.name}`")
        raise BadRequest(
            f"no sign-in at {server.place}: {flow.done.reason}",
            fix="`pal mcp login` begins again; a client of your own goes into mcp.servers.NAME.oauth",
        )


def _make_key() -> str:
    """A key that tokens can be bound to; "" where nothing can sign with it."""
    try:
        return str(late.load_part("mcp-proof-key")())
    except ModuleNotFoundError:
        return ""


def _sign(key: str, method: str, url: str, clock: Clock, **more: str) -> str:
    return str(late.load_part("mcp-proof")(key, method, url, clock.now() // 1000, **more))


def _find_free_port() -> int:
    """For the address that the browser comes back to, which is registered before it is opened."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
