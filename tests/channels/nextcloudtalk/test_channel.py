"""Nextcloud Talk: whose request it is, what was said, and what an account of its own adds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from channels.web.payloads import JSON
from palinurus.channels.nextcloudtalk.channel import NextcloudTalkChannel, make_reference
from palinurus.core.types.channel import ChannelHttpRequest, ReactAction, SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError
from palinurus.testing.platform import HumanMessage, make_channel_kit
from palinurus.testing.web.nextcloud import DIRECT, GROUP, SECRET, FakeNextcloud

HELLO = HumanMessage("hello", "", "", "", mention=False, times=1)


def make(folder: Path, own: dict[str, Any]) -> NextcloudTalkChannel:
    return NextcloudTalkChannel(make_channel_kit("nextcloud-talk", str(folder), own))


async def heard(made: NextcloudTalkChannel, request: ChannelHttpRequest) -> Any:
    told = await made.accept(request)
    return getattr(told, "status", None) or [one.inbound for one in told.heard]  # type: ignore[union-attr]


async def test_only_signed_requests_are_read(tmp_path: Path) -> None:
    async with FakeNextcloud() as fake:
        made, right = make(tmp_path, fake.section), fake.make_request(HELLO, "5", {})
        (said,) = await heard(made, right)
        assert (said.event, said.sender.id, said.kind) == (f"{DIRECT}/5", "alice", "direct")
        for wrong in (
            fake.sign_request(right.body, "other"),
            ChannelHttpRequest("POST", {**right.headers, "x-nextcloud-talk-random": "q"}, {}, right.body),
            ChannelHttpRequest("POST", right.headers, {}, right.body + b" "),
            ChannelHttpRequest("POST", right.headers, {}, b"\xff"),
            ChannelHttpRequest("POST", {}, {}, right.body),
        ):
            assert await heard(made, wrong) == 401


async def test_what_people_say_and_what_bots_do(tmp_path: Path) -> None:
    async with FakeNextcloud() as fake:
        made = make(tmp_path, fake.section)
        file = {"file": {"type": "file", "name": "notes.txt"}, "mention-user1": {"name": "Bob"}}
        said = HumanMessage("see {file}, {mention-user1}", "group", "", "", mention=True, times=1)
        (one,) = await heard(made, fake.make_request(said, "1", {"parameters": file}))
        assert (one.text, one.mentioned, one.kind, one.title) == ("see notes.txt, @Bob", True, "group", "Town")
        bot = {"actor": {"type": "Application", "id": "bots/bot-1", "name": "Pal"}}
        assert await heard(made, fake.make_request(HELLO, "2", bot)) == []
        assert await heard(made, fake.make_request(HELLO, "3", {"type": "Join"})) == []
        (guest,) = await heard(made, fake.make_request(HELLO, "4", {"actor": {"id": "guests/g1"}}))
        assert guest.sender.id == "guests/g1"


async def test_without_an_account_every_room_is_a_group_and_nothing_is_found(tmp_path: Path) -> None:
    async with FakeNextcloud() as fake:
        own = {key: value for key, value in fake.section.items() if not key.startswith("api")}
        made = make(tmp_path, own)
        (said,) = await heard(made, fake.make_request(HELLO, "1", {}))
        assert (said.kind, said.mentioned) == ("group", False)
        reply = Reply(said.target, "once", "c")
        assert isinstance(await made.send(reply), SendReceipt) and await made.find(reply) is None
        found = await make(tmp_path, fake.section).find(reply)
        assert found == SendReceipt(make_reference("c"))


async def test_replies_reactions_and_files(tmp_path: Path) -> None:
    async with FakeNextcloud() as fake:
        made, target = make(tmp_path, fake.section), Target("nextcloud-talk", GROUP)
        assert isinstance(await made.send(Reply(target, "to @all", "c", reply_to=f"{GROUP}/12")), SendReceipt)
        assert "@all" not in fake.seen[0]["message"] and fake.seen[0]["replyTo"] == 12
        assert isinstance(await made.act(target, ReactAction(f"{GROUP}/12", "👀")), SendReceipt)
        assert fake.reactions == [("12", "👀")]
        told = await made.send(Reply(target, "x", "d", media=("a.png",)))
        assert isinstance(told, SendFailure) and told.trouble == "media"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=JSON)
def test_no_payload_breaks_the_receiver(tmp_path: Path, payload: Any) -> None:
    made = make(tmp_path, {"baseUrl": "http://127.0.0.1:9", "botSecret": SECRET})
    said = {"id": "1", "name": "message", "content": json.dumps(payload)}
    whole = {"type": "Create", "actor": {"id": "users/a"}, "object": said, "target": {"id": "r"}}

    async def main() -> None:
        for body in (payload, whole, {**whole, "actor": payload}, {**whole, "object": payload}):
            await made.accept(FakeNextcloud().sign_request(json.dumps(body).encode()))

    asyncio.run(main())


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    for own, key in (
        ({"botSecret": "s"}, "baseUrl"),
        ({"baseUrl": "https://c.example"}, "botSecret"),
        ({"baseUrl": "https://c.example", "botSecret": "s", "apiUser": "u"}, "apiPassword"),
    ):
        with pytest.raises(ConfigError, match=key):
            make(tmp_path, own)
