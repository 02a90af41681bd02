"""Calls with a token: what an answer means, when a token is renewed, and where it never goes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from palinurus.channels.intake import FileUnavailable, RemoteFile
from palinurus.channels.msteams import channel as msteams
from palinurus.channels.nextcloudtalk import channel as nextcloud
from palinurus.channels.sms import channel as sms
from palinurus.channels.web.api import (
    ApiFacts,
    HttpApi,
    RenewedToken,
    TokenGrant,
    authorize_bearer,
    explain_api_error,
)
from palinurus.config.secrets import Secret
from palinurus.core.types.channel import SendFailure
from palinurus.testing.loopback import EVERY_REQUEST, LoopbackHttp
from palinurus.testing.platform import FastClock, make_channel_kit

FACTS = ApiFacts(
    "Harbour",
    lambda told: (str(told.get("code") or ""), str(told.get("message") or "")),
    codes={"7": "blocked"},
    words={"7": "write to them first"},
    statuses={403: "refused"},
    fine=frozenset((409,)),
)


class Server:
    """Answers as it is told to, and remembers who asked."""

    def __init__(self) -> None:
        self.http = LoopbackHttp({EVERY_REQUEST: self._answer})
        self.replies: list[web.Response] = []
        self.seen: list[tuple[str, str]] = []

    async def _answer(self, request: web.Request) -> web.Response:
        self.seen.append((request.path, request.headers.get("Authorization", "")))
        return self.replies.pop(0) if self.replies else web.json_response({"ok": True})

    async def __aenter__(self) -> Server:
        await self.http.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.http.stop()


@pytest.mark.parametrize(
    ("status", "body", "headers", "trouble", "words"),
    [
        (429, {}, {"Retry-After": "9"}, "limited", "answered 429"),
        (400, {"code": 7, "message": "no"}, {}, "blocked", "says 7: write to them first"),
        (400, {"message": "odd"}, {}, "refused", "Harbour says: odd"),
        (403, {}, {}, "refused", "403"),
        (401, {}, {}, "signed_out", "401"),
        (404, [], {}, "gone", "404"),
        (500, {}, {}, "cut", "500"),
        (503, {}, {}, "down", "503"),
        (302, {}, {"Location": "http://elsewhere.example/"}, "refused", "302"),
    ],
)
async def test_what_answers_mean(status: int, body: Any, headers: dict[str, str], trouble: str, words: str) -> None:
    async with Server() as server:
        server.replies = [web.json_response(body, status=status, headers=headers)]
        told = await HttpApi(FACTS, server.http.url).call("POST", "/x", {"a": 1})
    assert isinstance(told, SendFailure) and told.trouble == trouble and words in told.reason, told
    assert told.retry_after == (9.0 if trouble == "limited" else None)


async def test_lists_and_statuses_that_are_fine() -> None:
    async with Server() as server:
        server.replies = [web.json_response([{"a": 1}]), web.json_response({"b": 2}, status=409)]
        api = HttpApi(FACTS, server.http.url)
        assert await api.call("GET", "/list") == {"rows": [{"a": 1}]}
        assert await api.call("GET", "/again") == {"b": 2}
    told = await api.call("GET", "/gone")
    assert isinstance(told, SendFailure) and (told.trouble, told.reason) == ("down", "Harbour cannot be reached")


async def test_a_token_is_renewed_when_it_is_old_and_once_when_it_is_refused() -> None:
    clock, grants = FastClock(), list[str]()

    async def grant() -> TokenGrant | SendFailure:
        grants.append(f"t{len(grants)}")
        return TokenGrant(Secret(grants[-1]), 3600)

    async with Server() as server:
        api = HttpApi(FACTS, server.http.url, RenewedToken(grant, clock))
        await api.call("GET", "/a")
        await api.call("GET", "/b")
        clock.ahead = 3_550_000  # a minute before its end it counts as old
        await api.call("GET", "/c")
        server.replies = [web.json_response({}, status=401)]
        assert await api.call("GET", "/d") == {"ok": True}
        server.replies = [web.json_response({}, status=401) for _ in range(2)]
        told = await api.call("GET", "/e")
    assert isinstance(told, SendFailure) and told.trouble == "signed_out"
    assert [proof for _, proof in server.seen] == [f"Bearer t{n}" for n in (0, 0, 1, 1, 2, 2, 3)]


async def test_a_token_goes_to_its_own_host_only_and_strange_places_are_not_fetched(tmp_path: Path) -> None:
    kit = make_channel_kit("line", str(tmp_path), {})
    async with Server() as server, Server() as other:
        api = HttpApi(FACTS, server.http.url, authorize_bearer(Secret("tok")))
        server.replies = [
            web.Response(body=b"data"),
            web.Response(status=302, headers={"Location": f"{other.http.url}/stolen"}),
            web.Response(status=404),
        ]
        got = b"".join([part async for part in api.fetch_file(kit, RemoteFile("a", "", f"{server.http.url}/a"))])
        for where in (f"{server.http.url}/b", f"{server.http.url}/c", f"{other.http.url}/d", "file:///etc/passwd"):
            with pytest.raises(FileUnavailable):
                async for _ in api.fetch_file(kit, RemoteFile("a", "", where)):
                    pass
        also = HttpApi(FACTS, "https://api.example", authorize_bearer(Secret("tok")), also=(other.http.url,))
        async for _ in also.fetch_file(kit, RemoteFile("a", "", f"{other.http.url}/e")):
            pass
    assert got == b"data" and server.seen[0] == ("/a", "Bearer tok")
    assert other.seen == [("/e", "Bearer tok")]  # this machine is closed to what only came in a message


async def test_one_buys_a_token_for_all_who_wait() -> None:
    bought = 0

    async def grant() -> TokenGrant:
        nonlocal bought
        bought += 1
        mine = bought
        await asyncio.sleep(0)
        return TokenGrant(Secret(f"t{mine}"), 3600.0)

    token = RenewedToken(grant, FastClock())
    first = await asyncio.gather(*(token() for _ in range(20)))
    assert bought == 1 and first == [{"Authorization": "Bearer t1"}] * 20
    for _ in range(20):  # all of them were refused
        token.drop({"Authorization": "Bearer t1"})
        assert await token() == {"Authorization": "Bearer t2"}
    assert bought == 2


@pytest.mark.parametrize(
    ("facts", "status", "told", "trouble"),
    [
        # Teams: "Status code responses" of its page on messages in conversations
        (msteams.FACTS, 403, {"error": {"code": "ConversationBlockedByUser", "message": "x"}}, "blocked"),
        (msteams.FACTS, 403, {"error": {"code": "BotNotInConversationRoster", "message": "x"}}, "gone"),
        (msteams.FACTS, 412, {"error": {"code": "PreconditionFailed", "message": "x"}}, "down"),
        (msteams.FACTS, 429, {"error": {"code": "Throttled", "message": "x"}}, "limited"),
        (msteams.FACTS, 401, {"error": {"code": "BotNotRegistered", "message": "x"}}, "signed_out"),
        # Twilio: its dictionary of errors
        (sms.FACTS, 400, {"code": 21658, "message": "Parameter exceeded character limit"}, "long"),
        (sms.FACTS, 400, {"code": 21730, "message": "System under maintenance"}, "down"),
        # Nextcloud: docs/bots.md of spreed. Not being switched on in one room must not stop the others
        (nextcloud.FACTS, 401, {"ocs": {"meta": {"statuscode": 401, "message": ""}, "data": None}}, "gone"),
        (nextcloud.FACTS, 413, {"ocs": {"meta": {"statuscode": 413}, "data": None}}, "long"),
    ],
)
def test_what_vendors_say_that_their_errors_mean(facts: ApiFacts, status: int, told: Any, trouble: str) -> None:
    assert explain_api_error(facts, status, told, {}).trouble == trouble
