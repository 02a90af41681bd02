"""Requests of platforms reach the account they name, through the whole gateway, and no other."""

from __future__ import annotations

from pathlib import Path

import aiohttp

from flow.test_app import running, until
from gateway.host import TOKEN
from palinurus.channels.webhook.channel import make_signed_headers
from palinurus.config.secrets import Secret
from palinurus.gateway.server import GatewayServer
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.webhook import FakeWebhook

BODY = b'{"id": "1", "from": "ann", "text": "hello"}'


async def test_accounts_have_addresses_and_secrets_of_their_own(tmp_path: Path) -> None:
    async with FakeWebhook() as people:
        own = {"url": people.url, "dmPolicy": "open", "allowFrom": ["*"]}
        accounts = {"one": {**own, "secret": "first"}, "two": {**own, "secret": "a-shared-secret"}}
        model, fake = ScriptedModel([say("Yes?")]), FakeChannel()
        async with running(tmp_path / "h", model, fake, channels={"webhook": {"accounts": accounts}}) as app:
            server = GatewayServer(app, app.clock, TOKEN)
            await server.start("127.0.0.1", 0)
            try:
                async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as http:

                    async def post(path: str, secret: str) -> int:
                        headers = make_signed_headers(Secret(secret), BODY, app.clock.now())
                        async with http.post(path, data=BODY, headers=headers) as answer:
                            return answer.status

                    assert await post("/channels/webhook/one", "a-shared-secret") == 401
                    assert await post("/channels/webhook/two", "first") == 401
                    assert await post("/channels/webhook/default", "first") == 404
                    assert await post("/channels/nothing/default", "first") == 404
                    assert await post("/channels/fake/default", "first") == 404  # takes no requests
                    assert await post("/channels/fake/other", "first") == 404
                    assert await post("/channels/webhook/two", "a-shared-secret") == 200
                    await until(lambda: [one.text for one in people.visible_messages("ann")] == ["Yes?"])
            finally:
                await server.stop()
    assert people.seen[0]["account"] == "two"
