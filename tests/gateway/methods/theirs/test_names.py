"""OpenClaw's names for what is here: each does what ours does."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from gateway.manage.test_push import opened, vendor
from gateway.methods.test_channels import place as place_with_channel
from gateway.whole import KEY, place
from palinurus.core.types.channel import ChannelAbilities, PollAction
from palinurus.gateway.methods.theirs.names import NONE
from palinurus.gateway.rpc import READ, MethodError
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.registry import FakeRegistry


async def test_a_browser_of_theirs_is_notified(tmp_path: Path) -> None:
    async with vendor() as service, place(tmp_path / "h", **opened(service)) as here, here.other() as phone:
        assert (await phone.call("push.web.vapidPublicKey", {}))["vapidPublicKey"]
        with pytest.raises(MethodError, match="not subscribed"):
            await phone.call("push.web.test", {})
        place_of = {"endpoint": f"{service.http.url}/push/1", "keys": {"p256dh": "a", "auth": "b"}}
        assert (await phone.call("push.web.subscribe", place_of))["subscriptionId"]
        assert (await phone.call("push.web.test", {"title": "x"}))["results"][0]["ok"]
        assert (await service.came.get())[1] == b""
        assert (await phone.call("push.web.unsubscribe", {"endpoint": place_of["endpoint"]})) == {"removed": True}


async def test_strangers_are_let_in_by_their_names(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with place_with_channel(tmp_path / "h", channel) as here:
        for who in ("7", "8"):
            await channel.receive("hi", event=f"e{who}", sender=who)
        told = await here.call("channels.pairing.list")
        first, second = told["requests"]
        assert [one["senderId"] for one in (first, second)] == ["7", "8"] and told["accounts"][0]["channel"] == "fake"
        wanted = {"channel": "fake", "accountId": "default"}
        done = await here.call("channels.pairing.approve", **wanted, requestId=first["requestId"])
        assert (done["senderId"], done["notification"]) == ("7", "sent")
        gone = await here.call("channels.pairing.dismiss", **wanted, requestId=second["requestId"])
        assert gone["senderId"] == "8" and (await here.call("channels.pairing.list"))["requests"] == []
        assert [one["id"] for one in (await here.call("pairing.list"))["paired"]] == ["7"]


async def test_a_poll_is_asked_where_a_channel_can(tmp_path: Path) -> None:
    channel = FakeChannel(abilities=ChannelAbilities(acts=frozenset(("poll",))))
    async with place_with_channel(tmp_path / "h", channel) as here:
        asked = {"to": "5", "question": "tea?", "options": ["yes", "no"], "channel": "fake", "idempotencyKey": "k"}
        assert (await here.call("poll", **asked))["runId"] == "k"
        assert "no channel" in (await here.refused("poll", **{**asked, "channel": "other"})).message
    assert [act for _, act in channel.acts] == [PollAction("tea?", ("yes", "no"))]


async def test_a_registry_is_searched_and_one_skill_described(tmp_path: Path) -> None:
    registry = FakeRegistry()
    await registry.start()
    registry.put("notes", "1.0.0", SKILL="---\nname: notes\ndescription: Keeps notes.\n---\nDo.\n")
    try:
        async with place(tmp_path / "h", environ={"CLAWHUB_REGISTRY": registry.url}) as here:
            assert (await here.call("skills.search", limit=20)) == {"results": []}
            assert [one["slug"] for one in (await here.call("skills.search", query="note"))["results"]] == ["notes"]
            assert (await here.call("skills.detail", slug="notes"))["latestVersion"]["version"] == "1.0.0"
    finally:
        await registry.stop()


async def test_branches_are_listed_and_switched(tmp_path: Path) -> None:
    model = ScriptedModel([say("one"), say("two"), say("three")])
    async with place(tmp_path / "h", model) as here:
        assert (await here.call("sessions.branches.list", sessionKey="main")) == {"branches": []}
        await here.say("first", "r1")
        await here.say("second", "r2")
        (only,) = (await here.call("sessions.branches.list", sessionKey="main"))["branches"]
        assert only["active"] and only["messageCount"] == 4
        await here.call("sessions.rewind", key="main", entry=only["leafEntryId"], before=True)
        await here.call("sessions.rewind", key="main", entry="root")
        await here.say("other", "r3")
        both = (await here.call("sessions.branches.list", sessionKey="main"))["branches"]
        assert [one["active"] for one in both] == [False, True]
        await here.call("sessions.branches.switch", sessionKey="main", leafEntryId=both[0]["leafEntryId"])
        again = (await here.call("sessions.branches.list", sessionKey="main"))["branches"]
        assert [one["active"] for one in again] == [True, False]


async def test_files_of_a_conversation_are_artifacts(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([say("seen")], repeat=True)) as here:
        file = {
            "type": "file",
            "mimeType": "text/plain",
            "fileName": "a.txt",
            "content": base64.b64encode(b"hi").decode(),
        }
        await here.call("chat.send", sessionKey="main", message="look", idempotencyKey="r", attachments=[file])
        await here.call("agent.wait", runId="r", timeoutMs=30_000)
        (one,) = (await here.call("artifacts.list", sessionKey=KEY))["artifacts"]
        assert (one["title"], one["mimeType"], one["sizeBytes"]) == ("a.txt", "text/plain", 2)
        got = await here.call("artifacts.download", sessionKey=KEY, artifactId=one["id"])
        assert base64.b64decode(got["data"]) == b"hi"
        assert "no such artifact" in (await here.refused("artifacts.get", sessionKey=KEY, artifactId="x:9")).message


async def test_a_workspace_is_looked_at_by_its_owner_and_nothing_beside_it(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here, here.other(scopes=(READ,)) as reader:
        folder = Path((await here.call("agents.list"))["agents"][0]["workspace"])
        (folder / "sub").mkdir(parents=True, exist_ok=True)
        (folder / "sub" / "a.txt").write_text("tea\n")
        (folder / "sub" / ".hidden").write_text("no")
        (folder / "sub" / "way").symlink_to("/etc")
        told = await reader.call("agents.workspace.list", {"agentId": "main", "path": "sub"})
        assert [one["path"] for one in told["entries"]] == ["sub/a.txt"] and told["parentPath"] == ""
        got = await here.call("agents.workspace.get", agentId="main", path="sub/a.txt")
        assert (got["file"]["content"], got["file"]["encoding"]) == ("tea\n", "utf8")
        with pytest.raises(MethodError, match=r"operator\.admin"):
            await reader.call("agents.workspace.get", {"agentId": "main", "path": "sub/a.txt"})
        for path in ("sub/way/passwd", "../secret", "/etc/passwd"):
            await here.refused("agents.workspace.get", agentId="main", path=path)
        await here.refused("agents.workspace.list", agentId="main", path="../..")


async def test_lists_of_what_cannot_be_here_are_empty(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        for name, (_, payload) in NONE.items():
            assert await here.call(name) == payload
        listed = set(here.link.hello["features"]["methods"])
        assert not listed & set(NONE) and "artifacts.list" in listed
