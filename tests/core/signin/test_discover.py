"""Finding out where one signs in to a tool server: a table of what servers say, and what must not be believed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from palinurus.core.signin.discover import (
    DiscoveryClient,
    DiscoveryFlow,
    covers_resource,
    is_fit_address,
    join_scopes,
    read_challenge,
)
from palinurus.core.types.signin import OAuthAnswer, SignInFailure, SignInRow

HOLDS = "https://tools.example/.well-known/oauth-protected-resource/a/mcp"
SIGNS = "https://id.example/.well-known/oauth-authorization-server/t"
URL = "https://tools.example/a/mcp"
PATHS = {"authorization": "authorize", "token": "token", "registration": "register"}


def resource(**more: Any) -> dict[str, Any]:
    return {"resource": URL, "authorization_servers": ["https://id.example/t"], **more}


def server(issuer: str = "https://id.example/t", **more: Any) -> dict[str, Any]:
    ends = {f"{name}_endpoint": f"https://id.example/{path}" for name, path in PATHS.items()}
    return {"issuer": issuer, **ends, "code_challenge_methods_supported": ["S256"], **more}


GOOD: dict[str, Any] = {
    HOLDS: resource(),
    SIGNS: server(),
    "https://id.example/register": {"client_id": "c-1"},
}


def walk(
    pages: dict[str, Any], challenge: str = "", client: DiscoveryClient | None = None
) -> tuple[DiscoveryFlow, list[str]]:
    flow, asked = DiscoveryFlow(URL, challenge, client or DiscoveryClient(port=7)), []
    while flow.ask is not None:
        asked.append(flow.ask.url)
        found = pages.get(flow.ask.url)
        flow.feed(OAuthAnswer(404 if found is None else 200, json.dumps(found).encode()))
    return flow, asked


def test_the_straight_way() -> None:
    flow, asked = walk(GOOD)
    row = flow.done
    assert isinstance(row, SignInRow) and asked == list(GOOD)
    assert (row.client_id, row.token_url, row.authorize_url) == (
        "c-1",
        "https://id.example/token",
        "https://id.example/authorize",
    )
    assert (row.resource, row.issuer, row.port, row.scope) == (URL, "https://id.example/t", 7, "")


def test_where_the_challenge_leads_and_what_it_asks_for() -> None:
    named = "https://tools.example/elsewhere"
    pages = {**GOOD, named: resource(scopes_supported=["all"])}
    flow, asked = walk(pages, f'Bearer resource_metadata="{named}", scope="read write"')
    assert asked[0] == named and isinstance(flow.done, SignInRow) and flow.done.scope == "read write"
    flow, asked = walk(pages, f"Bearer resource_metadata={named}")
    assert isinstance(flow.done, SignInRow) and flow.done.scope == "all"
    flow, asked = walk(pages, 'Bearer resource_metadata="http://evil.example/x"')  # not https: not asked
    assert asked == list(GOOD) and isinstance(flow.done, SignInRow)
    lasting = {
        **pages,
        SIGNS: server(scopes_supported=["offline_access"]),
    }
    flow, _ = walk(lasting, 'Bearer scope="read"')
    assert isinstance(flow.done, SignInRow) and flow.done.scope == "read offline_access"


def test_all_the_places_where_it_may_be_written() -> None:
    _, asked = walk({})
    assert asked == [
        HOLDS,
        "https://tools.example/.well-known/oauth-protected-resource",
        "https://tools.example/.well-known/oauth-authorization-server",
        "https://tools.example/.well-known/openid-configuration",
        "https://tools.example/register",  # the oldest revision: agreed upon
    ]
    only = {"https://tools.example/.well-known/oauth-protected-resource": resource()}
    flow, asked = walk(only)
    assert asked[-3:] == [
        SIGNS,
        "https://id.example/.well-known/openid-configuration/t",
        "https://id.example/t/.well-known/openid-configuration",
    ]
    assert isinstance(flow.done, SignInFailure)


def test_the_oldest_servers() -> None:
    flow, _ = walk({"https://tools.example/register": {"client_id": "c"}})
    assert isinstance(flow.done, SignInRow)
    assert flow.done.token_url == "https://tools.example/token" and flow.done.resource == ""


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        ({HOLDS: resource(resource="https://evil.example/a/mcp")}, "another server"),
        ({HOLDS: resource(authorization_servers=["http://id.example"])}, "https"),
        ({SIGNS: server("https://evil.example")}, "another name"),
        ({SIGNS: server(code_challenge_methods_supported=["plain"])}, "PKCE"),
        ({SIGNS: server(authorization_endpoint="javascript:alert(1)")}, "https address"),
        ({SIGNS: server(registration_endpoint=None)}, "oauth.clientId"),
        ({"https://id.example/register": {"error": "no"}}, "oauth.clientId"),
    ],
)  # fmt: skip
def test_what_is_not_believed(pages: dict[str, Any], words: str) -> None:
    flow, _ = walk({**GOOD, **pages})
    assert isinstance(flow.done, SignInFailure) and words in flow.done.reason


@pytest.mark.parametrize(
    ("methods", "given", "wanted", "basic"),
    [
        (["none"], {"client_id": "c"}, "", False),
        (["client_secret_post"], {"client_id": "c", "client_secret": "s"}, "s", False),
        (["client_secret_basic"], {"client_id": "c", "client_secret": "s"}, "s", True),
        (None, {"client_id": "c", "client_secret": "s"}, "s", True),
        (["none"], {"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": "none"}, "", False),
    ],
)
def test_how_the_client_names_itself(methods: Any, given: dict[str, str], wanted: str, basic: bool) -> None:
    more = {"token_endpoint_auth_methods_supported": methods} if methods else {}
    flow, _ = walk({**GOOD, SIGNS: server(**more), "https://id.example/register": given})
    assert isinstance(flow.done, SignInRow) and (flow.done.client_secret, flow.done.basic) == (wanted, basic)


@pytest.mark.parametrize(
    ("told", "binds"), [(["RS256", "ES256"], True), (["RS256"], False), ("ES256", False), (7, False)]
)
def test_whether_tokens_are_bound_to_a_key(told: Any, binds: bool) -> None:
    flow, _ = walk({**GOOD, SIGNS: server(dpop_signing_alg_values_supported=told)})
    assert isinstance(flow.done, SignInRow) and flow.done.binds is binds


def test_a_client_of_the_owner() -> None:
    flow, asked = walk(GOOD, client=DiscoveryClient("mine", "secret", "only this", 9))
    assert isinstance(flow.done, SignInRow) and "https://id.example/register" not in asked
    assert (flow.done.client_id, flow.done.client_secret, flow.done.scope) == ("mine", "secret", "only this")


def test_small_judgements() -> None:
    assert covers_resource("https://a.example", URL.replace("tools.", "a.")) and covers_resource(URL, URL)
    assert not covers_resource("https://tools.example/a/mc", URL) and not covers_resource("https://x.example/", URL)
    assert (
        is_fit_address("http://127.0.0.1:1/x") and not is_fit_address("http://a.example") and not is_fit_address(None)
    )
    assert not is_fit_address("https://[broken")
    assert join_scopes("a b", "b c") == "a b c"
    assert read_challenge('Bearer realm="x, y", scope=a, error="e"') == {"realm": "x, y", "scope": "a", "error": "e"}


def test_a_server_that_signs_people_in_itself_may_name_another_path_of_its_own_but_no_other_host() -> None:
    for issuer, good in (("https://tools.example/oauth", True), ("https://evil.example/oauth", False)):
        pages = {"https://tools.example/.well-known/oauth-authorization-server": server(issuer)}
        flow, _ = walk(pages, client=DiscoveryClient(id="x"))
        assert isinstance(flow.done, SignInRow) == good
