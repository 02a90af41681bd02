"""Machines that sign in: what they ask, in which order, and what they make of every answer a server may give."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from palinurus.core.signin.claims import read_claims
from palinurus.core.signin.flow import CodeFlow, DeviceFlow, RenewalFlow, build_revocation, make_challenge
from palinurus.core.types.signin import OAuthAnswer, SignInAccount, SignInFailure, SignInRow, TokenSet
from palinurus.testing.oauth import make_jwt

ROW = SignInRow(
    token_url="https://as.example/token",
    client_id="us",
    authorize_url="https://as.example/authorize",
    device_url="https://as.example/device",
    scope="a b",
)
DEVICE = {"device_code": "d", "user_code": "WDJB-MJHT", "verification_uri": "https://as.example/go", "interval": 5}
TOKENS = {"access_token": "AT", "refresh_token": "RT", "expires_in": 60}


def answer(told: Any, status: int = 200) -> OAuthAnswer:
    return OAuthAnswer(status, json.dumps(told).encode())


def pending(word: str, **more: Any) -> OAuthAnswer:
    return answer({"error": word, **more}, 400)


def form(flow: Any) -> dict[str, str]:
    assert flow.ask is not None
    return {name: values[0] for name, values in parse_qs(flow.ask.body.decode()).items()}


def test_a_device_waits_as_long_as_it_is_told_and_longer_when_it_is_told() -> None:
    flow = DeviceFlow(ROW)
    assert form(flow) == {"client_id": "us", "scope": "a b"} and flow.shown is None
    flow.feed(answer(DEVICE), 0)
    assert flow.shown is not None and flow.shown.code == "WDJB-MJHT" and flow.shown.expires == 900_000
    waits = []
    for heard in (pending("authorization_pending"), pending("slow_down"), OAuthAnswer(0, b"down"), answer({}, 503)):
        waits.append(flow.wait)
        assert form(flow)["device_code"] == "d"
        flow.feed(heard, 1000)
    assert [*waits, flow.wait] == [5, 5, 10, 20, 40]  # RFC 8628: five more, then twice as long
    flow.feed(answer(TOKENS), 2000)
    assert flow.done == TokenSet("AT", "RT", 62_000) and flow.ask is None


@pytest.mark.parametrize(
    ("heard", "words"),
    [
        (pending("access_denied"), "refused"),
        (pending("expired_token"), "expired"),
        (answer({"error": "device_flow_disabled"}), "switched off"),  # some servers say it with 200
        (answer(["no", "object"]), "HTTP 200"),
    ],
)
def test_a_device_that_gets_nothing_says_why(heard: OAuthAnswer, words: str) -> None:
    flow = DeviceFlow(ROW)
    flow.feed(answer(DEVICE), 0)
    flow.feed(heard, 1)
    assert isinstance(flow.done, SignInFailure) and words in flow.done.reason


def test_a_device_stops_asking_when_its_code_has_ended() -> None:
    flow = DeviceFlow(ROW)
    flow.feed(answer({**DEVICE, "expires_in": 10}), 0)
    flow.feed(pending("authorization_pending"), 10_000)
    assert isinstance(flow.done, SignInFailure) and "expired" in flow.done.reason


@pytest.mark.parametrize("heard", [answer({}), answer(DEVICE, 404), OAuthAnswer(0), answer({**DEVICE, "user_code": 1})])
def test_without_a_code_there_is_no_sign_in(heard: OAuthAnswer) -> None:
    flow = DeviceFlow(ROW)
    flow.feed(heard, 0)
    assert isinstance(flow.done, SignInFailure) and flow.shown is None


def test_a_device_whose_answer_is_a_code_trades_it() -> None:
    row = SignInRow(
        token_url="https://as/t",
        client_id="us",
        device_url="https://as/u",
        poll_url="https://as/p",
        poll_redirect="https://as/back",
        verify_url="https://as/go",
    )
    flow = DeviceFlow(row)
    assert flow.ask is not None and json.loads(flow.ask.body or b"") == {"client_id": "us"}
    flow.feed(answer({"device_auth_id": "d", "usercode": "C", "interval": "7"}), 0)
    assert flow.shown is not None and (flow.shown.url, flow.shown.code, flow.wait) == ("https://as/go", "C", 7)
    flow.feed(answer({"error": {"message": "not yet"}}, 403), 1)
    assert flow.ask is not None and json.loads(flow.ask.body or b"") == {"device_auth_id": "d", "user_code": "C"}
    flow.feed(answer({"authorization_code": "X", "code_verifier": "V"}), 2)
    assert form(flow) == {
        "client_id": "us",
        "grant_type": "authorization_code",
        "code": "X",
        "redirect_uri": "https://as/back",
        "code_verifier": "V",
    }
    flow.feed(answer(TOKENS), 3)
    assert isinstance(flow.done, TokenSet)


def test_the_page_carries_the_challenge_and_only_its_own_answer_is_taken() -> None:
    flow = CodeFlow(ROW, "http://127.0.0.1:7/callback", "verifier", "state-1")
    assert flow.shown is not None
    asked = parse_qs(urlsplit(flow.shown.url).query)
    assert asked["code_challenge"] == [make_challenge("verifier")] and asked["code_challenge_method"] == ["S256"]
    assert asked["redirect_uri"] == ["http://127.0.0.1:7/callback"] and "verifier" not in flow.shown.url
    assert "state" in flow.take_redirect("http://127.0.0.1:7/callback?code=c&state=other")
    assert "no code" in flow.take_redirect("http://127.0.0.1:7/callback")
    assert flow.ask is None and flow.done is None  # anybody may knock
    assert flow.take_redirect(" <http://127.0.0.1:7/callback?code=c&state=state-1> ") == ""
    assert form(flow)["code_verifier"] == "verifier"
    assert flow.take_redirect("code=evil&state=state-1") == "" and form(flow)["code"] == "c"  # the first one counts
    flow.feed(answer(TOKENS), 0)
    assert isinstance(flow.done, TokenSet)


def test_a_refusal_in_the_browser_and_a_wrong_server_are_told() -> None:
    flow = CodeFlow(ROW, "http://127.0.0.1:7/", "v", "s")
    assert flow.take_redirect("?error=access_denied&state=s") == ""
    assert flow.done == SignInFailure("the sign-in was refused")
    row = SignInRow(token_url="t", authorize_url="a", issuer="https://good.example")
    mixed = CodeFlow(row, "http://127.0.0.1:7/", "v", "s")
    assert "iss" in mixed.take_redirect("?code=c&state=s&iss=https%3A%2F%2Fevil.example") and mixed.ask is None
    assert isinstance(mixed.done, SignInFailure)  # it knows our state: there is nothing better to wait for


def test_renewal_keeps_what_is_not_sent_again() -> None:
    account = SignInAccount("ada", {"x": "1"}, "https://own")
    flow = RenewalFlow(ROW, TokenSet("old", "RT", 1, account))
    assert form(flow) == {"client_id": "us", "grant_type": "refresh_token", "refresh_token": "RT"}
    flow.feed(answer({"access_token": "new", "expires_in": 5}), 1000)
    assert flow.done == TokenSet("new", "RT", 6000, account)


@pytest.mark.parametrize(
    ("heard", "gone"),
    [
        (pending("invalid_grant"), True),
        (answer({"error": {"code": "refresh_token_reused", "message": "x"}}, 401), True),
        (answer({}, 401), True),
        (pending("invalid_client"), False),
        (answer({"error": "invalid_client"}, 401), False),
        (answer({}, 503), False),
        (answer({}, 429), False),
        (OAuthAnswer(0, b"down"), False),
        (OAuthAnswer(200, b"<html>"), False),
    ],
)
def test_only_what_is_really_gone_counts_as_gone(heard: OAuthAnswer, gone: bool) -> None:
    flow = RenewalFlow(ROW, TokenSet("old", "RT"))
    flow.feed(heard, 0)
    assert isinstance(flow.done, SignInFailure) and flow.done.gone is gone and flow.done.reason


def test_a_lasting_token_is_traded_for_a_short_one_again_and_again() -> None:
    row = SignInRow(token_url="https://as/t", exchange_url="https://api/x", client_id="us")
    flow = DeviceFlow(SignInRow(token_url="https://as/t", device_url="https://as/d", exchange_url="https://api/x"))
    flow.feed(answer(DEVICE), 0)
    flow.feed(answer({"access_token": "lasting"}), 1)
    assert flow.ask is not None and flow.ask.body is None and flow.ask.headers["Authorization"] == "Bearer lasting"
    flow.feed(answer({"token": "short", "expires_at": 100}), 1)
    assert flow.done == TokenSet("short", "lasting", 100_000)
    again = RenewalFlow(row, TokenSet("short", "lasting"))
    again.feed(answer({"message": "Bad credentials"}, 401), 0)
    assert isinstance(again.done, SignInFailure) and again.done.gone


def test_what_the_server_writes_is_not_repeated() -> None:
    flow = RenewalFlow(ROW, TokenSet("old", "RT-secret"))
    flow.feed(answer({"error": "weird <RT-secret>", "error_description": "RT-secret"}, 400), 0)
    assert isinstance(flow.done, SignInFailure) and "RT-secret" not in flow.done.reason


def test_closing_ends_it_and_nothing_after_that_counts() -> None:
    flow = CodeFlow(ROW, "http://127.0.0.1:7/", "v", "s")
    flow.close("too late")
    flow.feed(answer(TOKENS), 0)
    assert flow.done == SignInFailure("too late")


def test_revocation_names_the_lasting_token_where_there_is_an_ear() -> None:
    assert build_revocation(ROW, TokenSet("a", "r")) is None
    ask = build_revocation(SignInRow(revoke_url="https://as/r", client_id="us"), TokenSet("a", "r"))
    assert ask is not None and parse_qs((ask.body or b"").decode())["token"] == ["r"]


def test_the_client_may_name_itself_in_a_header() -> None:
    row = SignInRow(token_url="https://as/t", client_id="u:s", client_secret="x y", basic=True, resource="https://mcp")
    flow = RenewalFlow(row, TokenSet("a", "r"))
    assert flow.ask is not None and flow.ask.headers["Authorization"] == "Basic dSUzQXM6eCUyMHk="
    assert form(flow) == {"grant_type": "refresh_token", "refresh_token": "r", "resource": "https://mcp"}


@pytest.mark.parametrize("token", ["", "a.b", "a.!!.c", "a.bm8.c", make_jwt({})])
def test_tokens_that_say_nothing(token: str) -> None:
    assert read_claims(token) == {}


def test_secrets_are_not_printed() -> None:
    assert "AT" not in repr(TokenSet("AT", "RT"))


def test_who_it_is_comes_from_the_id_token() -> None:
    flow = RenewalFlow(ROW, TokenSet("old", "RT"))
    flow.feed(answer({**TOKENS, "id_token": make_jwt({"email": "ada@example.org"})}), 0)
    assert isinstance(flow.done, TokenSet) and flow.done.account.label == "ada@example.org"
