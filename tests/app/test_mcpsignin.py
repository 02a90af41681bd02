"""Signing in to tool servers: the SDK's connection against a fake that expires, rotates, revokes and wants more."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import jwt
import pytest
from aiohttp import web

from palinurus.app.mcpsignin import McpSignIns
from palinurus.core.types.tool import ToolFailure
from palinurus.errors import BadRequest, NotFound
from palinurus.providers.signin.vault import FILE, SignInVault
from palinurus.testing.oauth import FakeOAuth
from palinurus.tools.mcp.servers import McpServers
from tools.mcp.kit import context, joined, settings, text


@pytest.fixture
async def oauth() -> AsyncIterator[FakeOAuth]:
    async with FakeOAuth() as made:
        yield made


def far(oauth: FakeOAuth, **more: Any) -> dict[str, Any]:
    return {"url": f"{oauth.url}/mcp", "transport": "http", **more}


def signins(servers: McpServers) -> McpSignIns:
    return cast(McpSignIns, servers.tokens)


async def sign_in(servers: McpServers, oauth: FakeOAuth, **how: Any) -> str:
    """As a person with a browser does; what went wrong."""
    going = await signins(servers).start("far", **how)
    await oauth.browse(going.shown.url)
    return await signins(servers).wait(going)


async def test_from_the_refusal_to_the_first_call(tmp_path: Path, oauth: FakeOAuth) -> None:
    """W31: a server elsewhere that answers 401 was "error -32603", and there was no way to sign in."""
    async with joined(tmp_path / "h", far=far(oauth)) as (servers, table):
        server = servers.all["far"]
        assert not server.connected and server.locked
        assert server.problem == "it answers HTTP 401 Unauthorized; it wants a sign-in: `pal mcp login far`"
        assert await sign_in(servers, oauth) == ""
        await server.wait_settled()  # tried again at once, without anybody asking
        assert server.connected, server.problem
        assert text(await table["far__ping"].run(context())) == "pong"
        assert servers.tokens is not None and servers.tokens.has(server.settings)
    (registered,) = oauth.registered
    assert registered["redirect_uris"][0].startswith("http://127.0.0.1:")
    assert oauth.forms[0]["resource"] == f"{oauth.url}/mcp" and oauth.forms[0]["code_verifier"]
    assert (tmp_path / "h" / FILE).stat().st_mode & 0o777 == 0o600


async def test_renewed_before_its_end_and_when_it_is_refused_once_for_twenty(tmp_path: Path, oauth: FakeOAuth) -> None:
    async with joined(tmp_path / "h", far=far(oauth)) as (servers, table):
        await sign_in(servers, oauth)
        await servers.all["far"].wait_settled()
        oauth.expire()  # early: only the server knows
        answers = await asyncio.gather(*(table["far__ping"].run(context()) for _ in range(20)))
        assert [text(one) for one in answers] == ["pong"] * 20
        assert oauth.grants.count("refresh_token") == 1
        oauth.life = 30  # less than the margin: the next call renews first
        oauth.expire()
        await table["far__ping"].run(context())
        before = len(oauth.grants)
        await table["far__ping"].run(context())
        assert oauth.grants[before:] == ["refresh_token"]


async def test_revoked_is_told_with_the_command_and_nobody_asks_again(tmp_path: Path, oauth: FakeOAuth) -> None:
    async with joined(tmp_path / "h", far=far(oauth)) as (servers, table):
        await sign_in(servers, oauth)
        await servers.all["far"].wait_settled()
        oauth.revoke_all()
        for _ in range(2):
            with pytest.raises(ToolFailure, match=r"not valid any more.*`pal mcp login far`"):
                await table["far__ping"].run(context())
        assert oauth.grants.count("refresh_token") == 1
        (row,) = signins(servers).describe()
        assert row["problem"] and "canary" not in (tmp_path / "h" / FILE).read_text()
        assert await sign_in(servers, oauth) == ""
        assert text(await table["far__ping"].run(context())) == "pong"


async def test_more_rights_are_asked_for_with_those_there_were(tmp_path: Path, oauth: FakeOAuth) -> None:
    async with joined(tmp_path / "h", far={**far(oauth), "oauth": {"scope": "read"}}) as (servers, table):
        await sign_in(servers, oauth)
        await servers.all["far"].wait_settled()
        oauth.scopes = {"write"}
        with pytest.raises(ToolFailure, match=r"more rights than the sign-in has \(write\): `pal mcp login far`"):
            await table["far__ping"].run(context())
        await sign_in(servers, oauth)
        assert oauth.granted["access-canary-0002"] == "read write"
        assert text(await table["far__ping"].run(context())) == "pong"


async def test_too_few_rights_for_the_first_word_are_told_as_such(tmp_path: Path, oauth: FakeOAuth) -> None:
    """It is not asked again in an older way, whose refusal would hide the reason."""
    oauth.scopes, oauth.guarded = {"write"}, {"server/discover", "initialize"}
    async with joined(tmp_path / "h", far=far(oauth)) as (servers, _):
        await sign_in(servers, oauth)
        await servers.all["far"].wait_settled()
        assert "more rights than the sign-in has (write)" in servers.all["far"].problem
        assert "initialize" not in oauth.called


async def test_a_server_that_greets_anybody_is_asked_for_what_it_refuses(tmp_path: Path, oauth: FakeOAuth) -> None:
    """Its handshake is free: which rights the rest needs, only its refusal of the rest says."""
    oauth.greets, oauth.wants = True, "basic"
    async with joined(tmp_path / "h", far=far(oauth)) as (servers, _):
        assert servers.all["far"].locked
        going = await signins(servers).start("far")
        assert "&scope=basic&" in going.shown.url
        await signins(servers).close()


async def test_a_program_gets_its_token_without_a_person(tmp_path: Path, oauth: FakeOAuth) -> None:
    """Once for twenty calls, anew when the server refuses it, and never on disk."""
    robot = {"clientId": "robot", "clientSecret": "canary", "scope": "read", "grant": "client_credentials"}
    async with joined(tmp_path / "h", far={**far(oauth), "oauth": robot}) as (servers, table):
        assert servers.all["far"].connected, servers.all["far"].problem
        await asyncio.gather(*(table["far__ping"].run(context()) for _ in range(20)))
        assert oauth.grants == ["client_credentials"]
        oauth.expire()
        assert text(await table["far__ping"].run(context())) == "pong"
        asked = oauth.forms[-1]
        assert (asked["client_id"], asked["scope"], asked["resource"]) == ("robot", "read", f"{oauth.url}/mcp")
        oauth.expire()
        oauth.down = True
        with pytest.raises(ToolFailure, match=r"no token for far \(mcp.servers.far.oauth\): HTTP 503"):
            await table["far__ping"].run(context())
    assert not (tmp_path / "h" / FILE).exists()


async def test_a_workload_shows_the_token_that_it_was_given(tmp_path: Path, oauth: FakeOAuth) -> None:
    workload = {"clientId": "robot", "grant": "jwt-bearer", "assertionToken": "a.b.c"}
    async with joined(tmp_path / "h", far={**far(oauth), "oauth": workload}) as (servers, _):
        assert servers.all["far"].connected
    (asked,) = oauth.forms
    assert asked["assertion"] == "a.b.c" and asked["grant_type"].endswith(":jwt-bearer")
    assert "client_secret" not in asked


async def test_a_company_says_who_may_go_where(tmp_path: Path, oauth: FakeOAuth) -> None:
    """The ID token is traded at the company's identity provider for a word to this one server, that for a token there;
    whoever keeps the file fresh keeps us signed in."""
    token = tmp_path / "id-token"
    token.write_text("first.id.token\n")
    async with FakeOAuth() as idp:
        at = {"idpTokenUrl": f"{idp.url}/token", "idpClientId": "company", "idpClientSecret": "s"}
        body = {"grant": "enterprise", "clientId": "robot", "clientSecret": "canary", "assertionFile": str(token), **at}
        async with joined(tmp_path / "h", far={**far(oauth), "oauth": body}) as (servers, table):
            assert servers.all["far"].connected, servers.all["far"].problem
            (asked,), (shown,) = idp.forms, oauth.forms
            assert asked["grant_type"].endswith(":token-exchange") and asked["subject_token"] == "first.id.token"
            assert asked["requested_token_type"].endswith(":id-jag") and asked["subject_token_type"].endswith(
                ":id_token"
            )
            assert (asked["audience"], asked["resource"]) == (oauth.url, f"{oauth.url}/mcp")
            assert (asked["client_id"], asked["client_secret"]) == ("company", "s")
            assert (shown["assertion"], shown["client_id"]) == ("access-canary-0001", "robot")
            assert "canary" not in str(asked) and "id.token" not in str(shown)  # to each what is for them
            token.write_text("second.id.token")
            oauth.expire()
            assert text(await table["far__ping"].run(context())) == "pong"
            assert idp.forms[-1]["subject_token"] == "second.id.token"
            idp.down = True
            oauth.expire()
            with pytest.raises(
                ToolFailure, match=r"no token for far \(mcp.servers.far.oauth\): the identity provider: "
            ):
                await table["far__ping"].run(context())
            idp.down = False
            token.unlink()
            with pytest.raises(ToolFailure, match=r"far.oauth\): .*id-token"):
                await table["far__ping"].run(context())
    assert not (tmp_path / "h" / FILE).exists()


async def test_a_key_that_is_none_is_told(tmp_path: Path, oauth: FakeOAuth) -> None:
    robot = {"clientId": "robot", "privateKey": "canary", "grant": "client_credentials"}
    async with joined(tmp_path / "h", far={**far(oauth), "oauth": robot}) as (servers, _):
        told = servers.all["far"].problem
        assert told.startswith("no token for far (mcp.servers.far.oauth): ") and "canary" not in told


class BoundOAuth(FakeOAuth):
    """Tokens are bound to a key (DPoP): every request needs a fresh proof, with the nonce if there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.nonce = ""
        self.seen: set[str] = set()
        self.bound: dict[str, str] = {}  # access token -> whose
        self.refused: list[str] = []
        self.plain = self.late = False
        self._whose = ""

    def make_tokens(self) -> dict[str, Any]:
        told = super().make_tokens()
        self.bound[told["access_token"]] = self._whose
        return told if self.plain else {**told, "token_type": "DPoP"}

    async def _server(self, request: web.Request) -> web.Response:
        told = json.loads((await super()._server(request)).text or "")
        return web.json_response(told | {"dpop_signing_alg_values_supported": ["RS256", "ES256"]})

    async def _token(self, request: web.Request) -> web.StreamResponse:
        self._whose, why = self.judge(request, "")
        if why:
            return web.json_response({"error": why}, status=400, headers={"DPoP-Nonce": self.nonce})
        return await super()._token(request)

    async def _mcp(self, request: web.Request) -> web.Response:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        whose, why = self.judge(request, token) if token and not self.plain else ("", "")
        if token and scheme != ("Bearer" if self.plain else "DPoP"):
            why = "invalid_token"
        if why or (token in self.valid and not self.plain and self.bound[token] != whose):
            said = f'DPoP error="{why or "invalid_token"}"'
            headers = {"WWW-Authenticate": said, "DPoP-Nonce": self.nonce}
            return web.json_response({}, status=401, headers=headers)
        return await super()._mcp(request)

    def judge(self, request: web.Request, token: str) -> tuple[str, str]:
        proof = request.headers.get("DPoP", "")
        try:
            key = jwt.PyJWK(jwt.get_unverified_header(proof)["jwk"], "ES256")
            told = jwt.decode(proof, key, algorithms=["ES256"])
        except (jwt.PyJWTError, KeyError):
            self.refused.append("no proof")
            return "", "invalid_dpop_proof"
        ath = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).decode().rstrip("=")
        right = (request.method, f"{self.url}{request.path}", ath if token else None)
        if (told["htm"], told["htu"], told.get("ath")) != right or told["jti"] in self.seen or self.late:
            self.refused.append("wrong proof")
            return "", "invalid_dpop_proof"
        self.seen.add(told["jti"])
        wrong = self.nonce and told.get("nonce") != self.nonce
        return json.dumps(jwt.get_unverified_header(proof)["jwk"]), "use_dpop_nonce" if wrong else ""


@pytest.fixture
async def bound() -> AsyncIterator[BoundOAuth]:
    async with BoundOAuth() as made:
        yield made


@pytest.mark.parametrize("nonce", ["", "first"])
async def test_a_token_that_is_bound_to_a_key_is_of_no_use_to_who_takes_it(
    tmp_path: Path, bound: BoundOAuth, nonce: str
) -> None:
    bound.nonce = nonce
    async with joined(tmp_path / "h", far=far(bound)) as (servers, table):
        assert await sign_in(servers, bound) == ""
        await servers.all["far"].wait_settled()
        assert servers.all["far"].connected, servers.all["far"].problem
        bound.nonce = bound.nonce and "second"  # the server takes another one from time to time
        assert text(await table["far__ping"].run(context())) == "pong"
        bound.expire()  # renewed with the same key
        assert text(await table["far__ping"].run(context())) == "pong"
        assert "refresh_token" in bound.grants and len(set(bound.bound.values())) == 1 and not bound.refused
        (kept,) = SignInVault(str(tmp_path / "h"), os.environ).list_all().values()
        assert kept.proof_key in kept.secrets and "PRIVATE KEY" in kept.proof_key
    async with joined(tmp_path / "h", far=far(bound)) as (servers, _):  # after a restart it is the same key
        assert servers.all["far"].connected and len(set(bound.bound.values())) == 1


async def test_a_clock_that_is_wrong_is_told_and_costs_no_sign_in(tmp_path: Path, bound: BoundOAuth) -> None:
    async with joined(tmp_path / "h", far=far(bound)) as (servers, table):
        await sign_in(servers, bound)
        await servers.all["far"].wait_settled()
        bound.late = True
        with pytest.raises(ToolFailure, match="is the clock of this machine right"):
            await table["far__ping"].run(context())
        bound.late = False
        assert text(await table["far__ping"].run(context())) == "pong"


async def test_a_plain_token_is_sent_as_one_where_the_server_could_bind_it(tmp_path: Path, bound: BoundOAuth) -> None:
    bound.plain = True
    async with joined(tmp_path / "h", far=far(bound)) as (servers, _):
        assert await sign_in(servers, bound) == ""
        await servers.all["far"].wait_settled()
        assert servers.all["far"].connected, servers.all["far"].problem


async def test_a_programs_own_token_is_bound_too(tmp_path: Path, bound: BoundOAuth) -> None:
    robot = {"clientId": "robot", "clientSecret": "canary", "grant": "client_credentials"}
    async with joined(tmp_path / "h", far={**far(bound), "oauth": robot}) as (servers, table):
        assert servers.all["far"].connected, servers.all["far"].problem
        bound.expire()
        assert text(await table["far__ping"].run(context())) == "pong"
        assert bound.grants == ["client_credentials"] * 2 and not bound.refused


async def test_a_token_goes_to_its_own_server_only(tmp_path: Path, oauth: FakeOAuth) -> None:
    async with joined(tmp_path / "h", far=far(oauth)) as (servers, _):
        await sign_in(servers, oauth)
    moved = settings(tmp_path / "h", {"far": {"url": f"{oauth.url}/other"}}).mcp.servers["far"]
    assert await signins(servers).get(moved) == "" and not signins(servers).has(moved)


async def test_a_credential_of_the_config_goes_before(tmp_path: Path, oauth: FakeOAuth) -> None:
    async with joined(tmp_path / "h", far=far(oauth)) as (servers, _):
        await sign_in(servers, oauth)
    body = far(oauth, headers={"Authorization": "Bearer mine"})
    async with joined(tmp_path / "h", far=body) as (servers, _):
        problem = servers.all["far"].problem
        assert not servers.all["far"].connected and "credential of the config" in problem and "login" not in problem


async def test_another_process_signs_in_and_out(tmp_path: Path, oauth: FakeOAuth) -> None:
    async with joined(tmp_path / "h", far=far(oauth)) as (servers, table):
        async with joined(tmp_path / "h", far=far(oauth)) as (others, _):
            await sign_in(others, oauth)
        await servers.ready()
        await servers.all["far"].wait_settled()
        assert "far__ping" in table
        assert await signins(others).sign_out("far") == ["mcp:far: revoked and forgotten"]
        with pytest.raises(NotFound):
            await signins(others).sign_out("far")
        with pytest.raises(ToolFailure, match="`pal mcp login far`"):
            await table["far__ping"].run(context())
    assert SignInVault(str(tmp_path / "h"), os.environ).list_all() == {}


async def test_with_a_code_on_another_device(tmp_path: Path, oauth: FakeOAuth) -> None:
    async with joined(tmp_path / "h", far=far(oauth)) as (servers, _):
        going = await signins(servers).start("far", device=True)
        assert going.shown.kind == "device" and going.shown.code == "WDJB-MJHT"
        assert await signins(servers).wait(going) == "" and going.state == "done"
        await servers.all["far"].wait_settled()
        assert servers.all["far"].connected


async def test_what_cannot_be_signed_in_to(tmp_path: Path, oauth: FakeOAuth) -> None:
    other = {"url": f"{oauth.url}/register", "connectTimeout": 1}  # speaks no MCP: that long it is waited for
    body = {"far": far(oauth), "here": {"command": "true"}, "open": other}
    async with joined(tmp_path / "h", **body) as (servers, _):
        for name, words in (("here", "program on this machine"), ("open", "answers without a sign-in")):
            with pytest.raises(BadRequest, match=words):
                await signins(servers).start(name)
        with pytest.raises(NotFound):
            await signins(servers).start("nobody")
        await oauth.__aexit__()
        with pytest.raises(BadRequest, match="cannot be reached"):
            await signins(servers).start("far")
