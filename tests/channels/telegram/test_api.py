"""The Bot API's answers and silences, and what each means for a reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from palinurus.channels.kit import ChannelFile
from palinurus.channels.telegram.api import BotApi, TelegramFault, explain_broken_call, explain_telegram_answer
from palinurus.config.secrets import Secret
from palinurus.testing.loopback import EVERY_REQUEST, LoopbackHttp, abort_connection

TOKEN = "77:secret-of-a-bot"


@pytest.mark.parametrize(
    ("status", "said", "trouble"),
    [
        (401, "Unauthorized", "signed_out"),
        (404, "Not Found", "signed_out"),
        (400, "Bad Request: can't parse entities: unsupported start tag", "markup"),
        (400, "Bad Request: message is too long", "long"),
        (400, "Bad Request: message caption is too long", "long"),
        (400, "Bad Request: chat not found", "gone"),
        (400, "Bad Request: message thread not found", "gone"),
        (400, "Bad Request: TOPIC_CLOSED", "gone"),
        (400, "Bad Request: PHOTO_INVALID_DIMENSIONS", "media"),
        (400, "Bad Request: wrong file identifier/HTTP URL specified", "media"),
        (400, "Bad Request: VOICE_MESSAGES_FORBIDDEN", "media"),
        (400, "Bad Request: not enough rights to send text messages to the chat", "refused"),
        (400, "", "refused"),
        (403, "Forbidden: bot was blocked by the user", "blocked"),
        (403, "Forbidden: user is deactivated", "blocked"),
        (403, "Forbidden: bot can't initiate conversation with a user", "blocked"),
        (403, "Forbidden: bot was kicked from the supergroup chat", "gone"),
        (403, "Forbidden: bot is not a member of the channel chat", "gone"),
        (409, "Conflict: terminated by other getUpdates request", "down"),
        (413, "Request Entity Too Large", "media"),
        (429, "Too Many Requests", "limited"),
        (500, "Internal Server Error", "down"),
        (502, "Bad Gateway", "down"),
        (504, "Gateway Timeout", "cut"),
        (302, "", "down"),
    ],
)
def test_every_answer_has_its_word(status: int, said: str, trouble: str) -> None:
    found = explain_telegram_answer(status, {"ok": False, "description": said})
    assert found.failure.trouble == trouble and found.failure.reason and found.said == said.lower()
    assert (found.failure.retry_after is not None) == (trouble == "limited")


def test_a_limit_and_a_move_say_more() -> None:
    limited = explain_telegram_answer(429, {"description": "x", "parameters": {"retry_after": 7}}).failure
    assert (limited.trouble, limited.retry_after) == ("limited", 7.0)
    assert explain_telegram_answer(400, {"parameters": {"migrate_to_chat_id": -100}}).moved == "-100"
    assert explain_telegram_answer(400, {"parameters": [1]}).failure.trouble == "refused"


@pytest.mark.parametrize(
    ("exc", "trouble"),
    [
        (aiohttp.ConnectionTimeoutError(), "down"),
        (aiohttp.InvalidURL("x"), "down"),
        (aiohttp.ServerDisconnectedError(), "cut"),
        (aiohttp.ClientPayloadError(), "cut"),
        (TimeoutError(), "cut"),
        (ConnectionResetError(), "cut"),
    ],
)
def test_was_it_on_its_way(exc: Exception, trouble: str) -> None:
    assert explain_broken_call(exc).failure.trouble == trouble


class Server:
    """Answers with the next of `answers`; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers: list[web.Response | None] = []
        self.http = LoopbackHttp({EVERY_REQUEST: self._handle})

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        form = {name: one if isinstance(one, str) else one.filename for name, one in (await request.post()).items()}
        self.asked.append((request.path, form))
        answer = self.answers.pop(0)
        return answer if answer is not None else abort_connection(request)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    await made.http.start()
    yield made
    await made.http.stop()


def told(result: Any) -> web.Response:
    return web.json_response({"ok": True, "result": result})


async def test_what_is_asked_is_a_form_and_nothing_is_followed(server: Server) -> None:
    api = BotApi(Secret(TOKEN), server.http.url)
    server.answers = [told(5), told(True), web.Response(status=302, headers={"Location": server.http.url})]
    async with api.connected():
        given = {"text": "a&b=ü\ud83d", "none": None, "no": False, "yes": True, "rows": [{"x": "ü"}]}
        assert await api.call("sendMessage", chat_id=7, **given) == 5
        file = ChannelFile("ü.txt", "", b"data")
        assert await api.upload("sendDocument", "document", file, {"chat_id": 7, "caption": "c"}) is True
        with pytest.raises(TelegramFault):
            await api.call("getMe")
    path, form = server.asked[0]
    assert path == f"/bot{TOKEN}/sendMessage"
    assert form == {"chat_id": "7", "text": "a&b=ü?", "yes": "true", "rows": '[{"x": "\\u00fc"}]'}
    assert server.asked[1][1] == {"chat_id": "7", "caption": "c", "document": "ü.txt"}


async def test_no_failure_shows_the_token(server: Server) -> None:
    api = BotApi(Secret(TOKEN), server.http.url)
    server.answers = [None, web.Response(text="<html>"), told([]), None]
    async with api.connected():
        for _ in range(2):
            with pytest.raises(TelegramFault) as failed:
                await api.call("getMe")
            assert (
                TOKEN not in f"{failed.value!r} {failed.value.__cause__!r}"
                and failed.value.__suppress_context__
                in (
                    True,
                    failed.value.__context__ is not None,
                )
            )
        assert await api.call("getUpdates") == []
        with pytest.raises(TelegramFault):
            async for _ in api.download("f"):
                raise AssertionError("there is nothing")
    await server.http.stop()
    async with api.connected():
        with pytest.raises(TelegramFault) as gone:
            await api.call("getMe")
    assert gone.value.failure.trouble == "down" and TOKEN not in f"{api!r} {gone.value!r}"


async def test_connections_end_with_their_last_user(server: Server) -> None:
    api = BotApi(Secret(TOKEN), server.http.url)
    server.answers = [told(1), told(2)]
    async with api.connected():
        async with api.connected():
            assert await api.call("a") == 1
        assert await api.call("b") == 2
    await asyncio.sleep(0)
    assert [path.rpartition("/")[2] for path, _ in server.asked] == ["a", "b"]


@pytest.mark.parametrize("named", [True, False])
async def test_a_proxy_of_the_config_or_the_environment_is_used(
    server: Server, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    if not named:
        monkeypatch.setenv("HTTP_PROXY", server.http.url)
    api = BotApi(Secret(TOKEN), "http://telegram.invalid", server.http.url if named else "")
    server.answers = [told("through")]
    async with api.connected():
        assert await api.call("getMe") == "through"
    assert server.asked[0][0] == f"/bot{TOKEN}/getMe"
