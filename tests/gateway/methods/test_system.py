"""status, channels, logs, identity, nodes, wake."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.whole import gathered, named, place
from palinurus.gateway.rpc import READ, MethodError
from palinurus.testing.model import ScriptedModel, say


async def test_status_shows_sessions_and_hides_paths_from_readers(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([say("hello")])) as here, here.other(scopes=(READ,)) as reader:
        await here.say("hi", "k1")
        own = await here.call("status")
        other = await reader.call("status")
    assert own["sessions"]["count"] == 1 and own["sessions"]["recent"][0]["key"] == "agent:main:main"
    assert own["sessions"]["paths"] and other["sessions"]["paths"] == []
    assert own["sessions"]["byAgent"][0]["count"] == 1 and own["heartbeat"]["defaultAgentId"] == "main"


async def test_the_small_ones_have_the_right_shapes(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        assert await here.call("last-heartbeat") is None
        assert (await here.call("node.list"))["nodes"] == []
        assert await here.call("node.pair.list") == {"pending": [], "paired": []}
        who = await here.call("gateway.identity.get")
        assert len(who["deviceId"]) == 64 and who == await here.call("gateway.identity.get")
        channels = await here.call("channels.status", probe=False, timeoutMs=1000)
        assert channels["channelOrder"] == [] and channels["channelAccounts"] == {}
        assert (await here.call("system-presence"))[0]["mode"] == "gateway"
        assert (await here.refused("cron.nothing")).message == "unknown method: cron.nothing"


async def test_logs_are_followed_without_gap_or_half_lines(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        assert (await here.call("logs.tail"))["lines"] == []
        log = tmp_path / "h" / "logs" / "gateway.log"
        log.parent.mkdir(exist_ok=True)
        log.write_text("one\ntwo\nhal")
        first = await here.call("logs.tail")
        assert first["lines"] == ["one", "two"]
        with log.open("a") as file:
            file.write("f\nthree\n")
        second = await here.call("logs.tail", cursor=first["cursor"])
        assert second["lines"] == ["half", "three"] and second["reset"] is False
        assert (await here.call("logs.tail", cursor=second["cursor"]))["lines"] == []
        assert (await here.call("logs.tail", limit=1))["lines"] == ["three"]
        short = await here.call("logs.tail", maxBytes=8)
        assert short["lines"] == ["three"]
        log.write_text("new\n")
        again = await here.call("logs.tail", cursor=second["cursor"])
        assert (again["lines"], again["reset"]) == (["new"], True)


async def test_waking_an_agent_begins_a_turn(tmp_path: Path) -> None:
    model = ScriptedModel([say("I am up.")])
    async with place(tmp_path / "h", model) as here:
        assert await here.call("wake", mode="now", text="the build is done") == {"ok": True}
        frames = await gathered(here.link, lambda f: f["event"] == "chat" and f["payload"]["state"] == "final")
        assert await here.call("wake", mode="next-heartbeat", text="later") == {"ok": True}
    assert named(frames, "chat")[-1]["message"]["content"][0]["text"] == "I am up."
    assert "the build is done" in model.requests[0].messages[-1].text
    assert len(model.requests) == 1  # the other waits for the next heartbeat


async def test_what_is_weak_is_told_to_admins_alone(tmp_path: Path) -> None:
    async with place(tmp_path / "h", tools={"taint": {"enabled": False}}) as site:
        told = await site.call("security.audit")
        assert not told["ok"] and {"tools.taint"} <= {one["key"] for one in told["findings"]} and told["rows"] > 40
        assert told["commands"][0]["agentId"] == "main" and isinstance(told["commands"][0]["gaps"], list)
        async with site.other(scopes=(READ,)) as link:
            with pytest.raises(MethodError, match=r"missing scope: operator\.admin"):
                await link.call("security.audit", {})
