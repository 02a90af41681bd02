"""The machines that commands run on, and this one, in OpenClaw's words."""

from __future__ import annotations

from pathlib import Path

from gateway.whole import place


async def test_this_machine_is_described(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        (own,) = (await here.call("environments.list"))["environments"]
        assert (own["id"], own["status"]) == ("gateway", "available")
        assert await here.call("environments.status", environmentId="gateway") == own
        assert "no such environment" in (await here.refused("environments.status", environmentId="x")).message
        told = await here.call("system.info")
        assert told["pid"] > 0 and told["memoryTotalBytes"] > told["memoryFreeBytes"] > 0 and told["uptimeMs"] >= 0
        assert (await here.call("update.status"))["updateAvailable"] is None
        memory = await here.call("doctor.memory.status")
        assert memory["agentId"] == "main" and isinstance(memory["embedding"]["ok"], bool)


async def test_a_restart_is_looked_at_and_asked_for(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        assert (await here.call("gateway.restart.preflight"))["safe"]
        assert "cannot restart itself" in (await here.refused("gateway.restart.request", reason="new config")).message
    async with place(tmp_path / "off", commands={"restart": False}) as here:
        assert "switched off" in (await here.refused("gateway.restart.request")).message


async def test_words_that_wake_a_device_are_kept_and_told(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        first = await here.call("voicewake.get")
        assert first["triggers"]
        assert await here.call("voicewake.set", triggers=[" ahoy "]) == {"triggers": ["ahoy"]}
        while (frame := await here.link.events.get())["event"] != "voicewake.changed":
            pass
        assert frame["payload"] == {"triggers": ["ahoy"]}
        routing = (await here.call("voicewake.routing.get"))["config"]
        assert routing["routes"] == []
        await here.call("voicewake.routing.set", config={**routing, "routes": [{"trigger": "ahoy"}]})
    async with place(tmp_path / "h") as here:
        assert await here.call("voicewake.get") == {"triggers": ["ahoy"]}
        assert (await here.call("voicewake.routing.get"))["config"]["routes"] == [{"trigger": "ahoy"}]
        assert await here.call("voicewake.set", triggers=[]) == first


async def test_rules_of_a_node_are_asked_of_the_node(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        assert "node" in (await here.refused("exec.approvals.node.get", nodeId="nobody")).message
