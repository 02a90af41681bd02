"""The connection: settings, strange requests, and the fake measured by Slack's own client."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from palinurus.channels.slack.channel import SlackChannel
from palinurus.core.types.inbound import Inbound
from palinurus.errors import ConfigError, Draining
from palinurus.testing.conformance.channel import wait_until
from palinurus.testing.platform import make_channel_kit
from palinurus.testing.slack.server import APP, BOT, SIGNING, FakeSlack

KEYS = (
    *("type", "event", "channel", "user", "text", "ts", "files", "actions", "value", "container", "message"),
    *("channel_id", "command", "user_id", "id", "thread_ts", "team", "subtype"),
)
WORDS = st.sampled_from(("event_callback", "block_actions", "message", "app_mention", "C1", "/status"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("own", "missing"),
    [
        ({}, "botToken"),
        ({"botToken": BOT}, "appToken"),
        ({"botToken": BOT, "mode": "http"}, "signingSecret"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, own: dict[str, Any], missing: str) -> None:
    with pytest.raises(ConfigError, match=missing):
        SlackChannel(make_channel_kit("slack", str(tmp_path), own))


def test_tokens_are_not_shown(tmp_path: Path) -> None:
    made = SlackChannel(make_channel_kit("slack", str(tmp_path), {"botToken": BOT, "appToken": APP}))
    assert BOT not in repr(vars(made)) and APP not in repr(vars(made))


async def test_slacks_own_client_gets_along_with_the_fake() -> None:
    async with FakeSlack() as slack:
        web = AsyncWebClient(BOT, base_url=f"{slack.url}/api/")
        client = SocketModeClient(APP, web_client=web)
        heard: list[str] = []

        async def listen(client: Any, request: Any) -> None:
            heard.append(request.payload["event"]["text"])
            await client.send_socket_mode_response(SocketModeResponse(request.envelope_id))

        client.socket_mode_request_listeners.append(listen)
        try:
            await client.connect()
            await slack.say("hello")
            await wait_until(lambda: heard == ["hello"] and len(slack.acknowledged) == 1)
            await web.chat_postMessage(channel="DALICE", text="*hi*")
            assert [one.text for one in slack.visible_messages()] == ["hi"]
            await web.files_upload_v2(filename="a.txt", content="x", channel="DALICE", initial_comment="look")
            assert slack.visible_messages()[-1].media == ("a.txt",)
        finally:
            await client.close()


async def hooked(tmp_path: Path, slack: FakeSlack) -> Any:
    return SlackChannel(
        make_channel_kit("slack", str(tmp_path), {**slack.section, "mode": "http", "signingSecret": SIGNING})
    )


async def test_a_program_that_goes_down_has_slack_come_again(tmp_path: Path) -> None:
    async with FakeSlack() as slack:
        channel = await hooked(tmp_path, slack)

        async def draining(inbound: Inbound) -> str:
            raise Draining("stopping")

        body = b'{"type": "event_callback", "event": {"type": "message", "channel": "D1", "user": "U1", "ts": "1.2"}}'
        with pytest.raises(Draining):
            await channel.hook(slack.sign_request(body), draining)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=JSON)
def test_no_payload_breaks_the_receiver(tmp_path: Path, payload: Any) -> None:
    async def main() -> None:
        slack = FakeSlack()
        slack.url = "http://127.0.0.1:9"
        channel = await hooked(tmp_path, slack)
        channel._posts.me = msgspec.structs.replace(channel._posts.me, user="UPAL")
        if isinstance(payload, dict):
            await channel._heard(payload)

    asyncio.run(main())
