"""Keys of others are fetched, kept, and not fetched for whoever makes up a key; a refused secret says so."""

from __future__ import annotations

from aiohttp import web

from palinurus.channels.web.api import TokenGrant
from palinurus.channels.web.tokens import KEEP, PAUSE, OpenIdKeys, grant_by_form
from palinurus.config.secrets import Secret
from palinurus.core.types.channel import SendFailure
from palinurus.testing.clock import FakeClock
from palinurus.testing.loopback import LoopbackHttp
from palinurus.testing.web.keys import show_test_keys, sign_with_test_key


async def test_keys_are_kept_and_strangers_fetch_nothing() -> None:
    clock, asked = FakeClock(), list[str]()

    async def keys(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response(show_test_keys())

    http = LoopbackHttp({"GET /keys": keys})
    await http.start()
    try:
        held = OpenIdKeys(f"{http.url}/keys", clock)
        now = clock.now() // 1000
        token = sign_with_test_key({"iss": "i", "aud": "a", "exp": now + 60})
        for _ in range(3):
            assert isinstance(await held.verify(f"Bearer {token}", ("i",), "a"), tuple)
        assert await held.verify(f"Bearer {token}", ("j",), "a") is None
        assert await held.verify(token, ("i",), "a") is None and await held.verify("", ("i",), "a") is None
        assert len(asked) == 1
        unknown = sign_with_test_key({"iss": "i", "aud": "a", "exp": now + 60}, "made-up")
        for _ in range(5):
            assert await held.verify(f"Bearer {unknown}", ("i",), "a") is None
        assert len(asked) == 1
        await clock.advance(PAUSE + 1)
        assert await held.verify(f"Bearer {unknown}", ("i",), "a") is None and len(asked) == 2
        await clock.advance(KEEP + 1)
        late = sign_with_test_key({"iss": "i", "aud": "a", "exp": clock.now() // 1000 + 60})
        assert await held.verify(f"Bearer {late}", ("i",), "a") is not None and len(asked) == 3
    finally:
        await http.stop()
    assert isinstance(await OpenIdKeys(f"{http.url}/keys", clock).verify(f"Bearer {late}", ("i",), "a"), SendFailure)


async def test_what_a_sign_in_says() -> None:
    answers = [
        web.json_response({"access_token": "t", "expires_in": 60}),
        web.json_response({"error": "invalid_client", "error_description": "wrong secret"}, status=400),
        web.json_response({}),
    ]

    async def login(request: web.Request) -> web.Response:
        assert (await request.post())["client_secret"] == "s"
        return answers.pop(0)

    http = LoopbackHttp({"POST /token": login})
    await http.start()
    try:
        grant = grant_by_form(f"{http.url}/token", {"client_secret": Secret("s")})
        assert await grant() == TokenGrant(Secret("t"), 60.0)
        for words in ("wrong secret", "no token"):
            told = await grant()
            assert isinstance(told, SendFailure) and told.trouble == "signed_out" and words in told.reason
    finally:
        await http.stop()
