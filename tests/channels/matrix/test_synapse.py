"""The same against a real homeserver: Synapse, from the package index.

    PALINURUS_SYNAPSE=/path/to/a/venv/bin/python make torture

Left out where that does not name a Python with `matrix-synapse`: it is large, and AGPL, so no dependency of ours.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from channels.scene import Gateway, asked, running, until
from palinurus.channels.matrix.channel import MatrixChannel
from palinurus.core.types.channel import (
    DeleteAction,
    EditAction,
    PinAction,
    ReactAction,
    ReadAction,
    SendFailure,
    SendReceipt,
    TypingAction,
)
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.testing.conformance.channel import PNG
from palinurus.testing.model import ScriptedModel, StreamGate, hold_at, say
from palinurus.testing.platform import make_channel_kit
from palinurus.testing.server import ModelServer
from ports import reserve_port

PYTHON = os.environ.get("PALINURUS_SYNAPSE", "")
PASSWORD = "a long pass phrase"
pytestmark = [
    pytest.mark.torture,
    pytest.mark.skipif(not PYTHON, reason="PALINURUS_SYNAPSE names no Python with matrix-synapse"),
]

CONFIG = """
server_name: "real"
pid_file: "{root}/pid"
listeners: [{{port: {port}, bind_addresses: ["127.0.0.1"], type: http, tls: false, resources: [{{names: [client]}}]}}]
database: {{name: sqlite3, args: {{database: "{root}/db"}}}}
media_store_path: "{root}/media"
signing_key_path: "{root}/key"
trusted_key_servers: []
report_stats: false
enable_registration: true
enable_registration_without_verification: true
rc_message: {{per_second: 1000, burst_count: 1000}}
rc_registration: {{per_second: 1000, burst_count: 1000}}
rc_joins: {{local: {{per_second: 1000, burst_count: 1000}}}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: Any) -> Iterator[str]:
    """The address of a running Synapse."""
    root = tmp_path_factory.mktemp("synapse")
    port = reserve_port()
    (root / "hs.yaml").write_text(CONFIG.format(root=root, port=port))
    argv = [PYTHON, "-m", "synapse.app.homeserver", "--config-path", str(root / "hs.yaml")]
    subprocess.run([*argv, "--generate-keys"], check=True, capture_output=True, cwd=root)
    with open(root / "log", "wb") as log, subprocess.Popen(argv, cwd=root, stdout=log, stderr=log) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


class Person:
    """Somebody with a client of their own; stands for the platform too."""

    name = "matrix"

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = url
        self._count = 0

    async def call(self, method: str, path: str, body: Any = None, token: str = "") -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token or self.token}"} if token or hasattr(self, "token") else {}
        where = f"{self._url}/_matrix/client/v3/{path}"
        async with self._http.request(method, where, json=body, headers=headers) as answer:
            told: dict[str, Any] = await answer.json()
            assert answer.status == 200, (method, path, answer.status, told)
            return told

    async def register(self, name: str) -> None:
        wanted = {"username": name, "password": PASSWORD, "auth": {"type": "m.login.dummy"}}
        told = await self.call("POST", "register", wanted)
        self.id, self.token = told["user_id"], told["access_token"]

    async def say(self, room: str, body: str, **more: Any) -> str:
        self._count += 1
        content = {"msgtype": "m.text", "body": body, **more}
        told = await self.call("PUT", f"rooms/{room}/send/m.room.message/t{self._count}", content)
        return str(told["event_id"])

    async def shown(self, room: str, who: str) -> list[str]:
        """What somebody said there, as it is read now."""
        told = await self.call("GET", f"rooms/{room}/messages?dir=b&limit=500")
        found = []
        for event in reversed(told["chunk"]):
            content = event["content"]
            relation = (content.get("m.relates_to") or {}).get("rel_type")
            if event["type"] != "m.room.message" or event["sender"] != who or relation == "m.replace":
                continue
            if not content:  # redacted: a draft that was taken back
                continue
            edit = event.get("unsigned", {}).get("m.relations", {}).get("m.replace")
            newest = (edit or {}).get("content", {}).get("m.new_content", content)
            found.append(newest.get("body", ""))
        return found


@pytest.fixture
async def people(server: str, tmp_path: Path) -> AsyncIterator[tuple[Person, Person]]:
    """Somebody, and our own account."""
    async with aiohttp.ClientSession() as http:
        async with asyncio.timeout(60):
            while True:
                try:
                    async with http.get(f"{server}/_matrix/client/versions") as answer:
                        if answer.status == 200:
                            break
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.1)
        mark = tmp_path.name.lower().replace("_", "")[-20:]
        alice, pal = Person(http, server), Person(http, server)
        await alice.register(f"alice-{mark}")
        await pal.register(f"pal-{mark}")
        pal.section = {"homeserver": server, "accessToken": pal.token}  # type: ignore[attr-defined]
        yield alice, pal


async def seen(alice: Person, room: str, pal: Person, wanted: list[str]) -> None:
    found: list[str] = []
    try:
        async with asyncio.timeout(90):
            while (found := await alice.shown(room, pal.id)) != wanted:
                await asyncio.sleep(0.05)
    except TimeoutError:
        assert found == wanted


async def test_a_direct_chat_that_begins_with_an_invitation(people: tuple[Person, Person], tmp_path: Path) -> None:
    alice, pal = people
    work = tmp_path / "work"
    work.mkdir()
    (work / "chart.png").write_bytes(PNG)
    gate = StreamGate()
    long = "It begins here. " * 20 + "And it ends."
    model = ScriptedModel([say(f"Hello.\nMEDIA:{work}/chart.png"), hold_at(say(long), gate, 6)])
    agents = {"defaults": {"model": {"primary": "fake/m"}, "workspace": str(work)}}
    own = {"streaming": "partial"}
    async with running(tmp_path / "h", model, pal, alice.id, own, agents=agents):
        wanted = {"is_direct": True, "invite": [pal.id], "preset": "trusted_private_chat"}
        room = (await alice.call("POST", "createRoom", wanted))["room_id"]
        await alice.say(room, "hello")
        await seen(alice, room, pal, ["Hello.", "chart.png"])
        await alice.say(room, "go on")
        await gate.wait_reached()
        gate.open()
        await seen(alice, room, pal, ["Hello.", "chart.png", long])
    assert asked(model, 0) == "hello"


async def test_a_group_and_a_long_absence(people: tuple[Person, Person], tmp_path: Path) -> None:
    alice, pal = people
    model = ScriptedModel([say("one"), say("two")])
    wanted = {"name": "harbour", "invite": [pal.id], "preset": "private_chat"}
    async with running(tmp_path / "h", model, pal, alice.id):
        room = (await alice.call("POST", "createRoom", wanted))["room_id"]
        mention = {"m.mentions": {"user_ids": [pal.id]}}
        await alice.say(room, "nice weather")
        await alice.say(room, f"{pal.id}: what do you think?", **mention)
        await seen(alice, room, pal, ["one"])
    for number in range(120):
        await alice.say(room, f"m{number}")
    async with running(tmp_path / "h", model, pal, alice.id, {"historyLimit": 200}):
        await alice.say(room, "and now?", **mention)
        await seen(alice, room, pal, ["one", "two"])
    assert "nice weather" in asked(model, 0) and "harbour" in asked(model, 0)
    assert all(f"m{number}\n" in asked(model, 1) for number in range(120))


async def test_killed_between_send_and_receipt_there_is_one_copy(people: tuple[Person, Person], tmp_path: Path) -> None:
    alice, pal = people
    async with ModelServer([say("exactly once")]) as model:
        gateway = Gateway(tmp_path, model.url, pal, alice.id)
        with gateway.up("outbox.sent:1") as process:
            wanted = {"is_direct": True, "invite": [pal.id], "preset": "trusted_private_chat"}
            room = (await alice.call("POST", "createRoom", wanted))["room_id"]
            await alice.say(room, "hello")
            await until(lambda: process.poll() is not None, 30)
            assert process.returncode == 137
        with gateway.up():
            await asyncio.sleep(3)
    await seen(alice, room, pal, ["exactly once"])


async def test_everything_else_we_do(people: tuple[Person, Person], tmp_path: Path) -> None:
    """Acts, answers, threads and reading back, as the real server takes them."""
    alice, pal = people
    channel = MatrixChannel(make_channel_kit("matrix", str(tmp_path), pal.section))  # type: ignore[attr-defined]
    assert await channel._introduced() is None
    wanted = {"name": "harbour", "invite": [pal.id], "preset": "trusted_private_chat"}
    room = (await alice.call("POST", "createRoom", wanted))["room_id"]
    await pal.call("POST", f"rooms/{room}/join", {})
    target, said = Target("matrix", room), await alice.say(room, "hello")
    done = [
        await channel.act(target, TypingAction()),
        await channel.act(target, ReactAction(said, "👀")),
        await channel.act(target, ReactAction(said, "👀", remove=True)),
        await channel.act(target, PinAction(said)),
        await channel.act(target, PinAction(said, remove=True)),
    ]
    assert all(isinstance(one, SendReceipt) for one in done), done
    reply = Reply(target, "an **answer**", "c1", reply_to=said)
    first = await channel.send(reply)
    assert isinstance(first, SendReceipt) and await channel.send(reply) == first and await channel.find(reply) == first
    below = Target("matrix", room, thread=said)
    assert isinstance(await channel.send(Reply(below, "in the thread", "c2")), SendReceipt)
    assert isinstance(await channel.act(target, EditAction(first.message_id, "a better one")), SendReceipt)
    assert await alice.shown(room, pal.id) == ["a better one", "in the thread"]
    assert isinstance(await channel.act(target, DeleteAction(first.message_id)), SendReceipt)
    assert await alice.shown(room, pal.id) == ["in the thread"]
    read = await channel.act(target, ReadAction(5))
    assert isinstance(read, SendReceipt) and "hello" in [line["text"] for line in read.data]
    direct = await channel.send(Reply(Target("matrix", alice.id), "psst", "c3"))
    assert isinstance(direct, SendReceipt)
    gone = await channel.send(Reply(Target("matrix", "!nowhere:real"), "x", "c4"))
    assert isinstance(gone, SendFailure) and gone.trouble == "gone"
    long = await channel.send(Reply(target, "x" * 70_000, "c5", plain=True))
    assert isinstance(long, SendFailure) and long.trouble == "long"


async def test_signing_in_with_a_password(people: tuple[Person, Person], tmp_path: Path) -> None:
    alice, pal = people
    own = {"accessToken": None, "userId": pal.id, "password": PASSWORD}
    model = ScriptedModel([say("one"), say("two")])
    wanted = {"is_direct": True, "invite": [pal.id], "preset": "trusted_private_chat"}
    async with running(tmp_path / "h", model, pal, alice.id, own):
        room = (await alice.call("POST", "createRoom", wanted))["room_id"]
        await alice.say(room, "hello")
        await seen(alice, room, pal, ["one"])
        await pal.call("POST", "logout/all", {})
        await alice.say(room, "still there?")
        await seen(alice, room, pal, ["one", "two"])
