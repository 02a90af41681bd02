"""Which tools there are, and why one is not."""

from __future__ import annotations

from pathlib import Path

from gateway.whole import place
from palinurus.gateway.rpc import READ


def names(groups: list[dict[str, list[dict[str, str]]]]) -> set[str]:
    return {tool["id"] for group in groups for tool in group["tools"]}


async def test_the_catalog_and_what_a_session_has_of_it(tmp_path: Path) -> None:
    async with place(tmp_path / "h", tools={"deny": ["exec"]}) as here, here.other(scopes=(READ,)) as reader:
        every = await here.call("tools.catalog")
        mine = await here.call("tools.effective", sessionKey="main")
        less = await reader.call("tools.effective", {"sessionKey": "main"})
        assert (await here.refused("tools.catalog", agentId="nobody")).message == 'unknown agent id "nobody"'
    assert {"read", "exec"} <= names(every["groups"]) and {"id": "full", "label": "Full"} in every["profiles"]
    files = next(group for group in every["groups"] if group["id"] == "fs")
    assert files["label"] == "Files" and "coding" in files["tools"][0]["defaultProfiles"]
    assert "read" in names(mine["groups"]) and "exec" not in names(mine["groups"])
    (why,) = (one for one in mine["hidden"] if one["id"] == "exec")
    assert why["key"] == "tools.deny" and why["layer"] and "tools.deny" in why["reason"]
    assert why["source"].endswith(":1") and why["changes"]
    assert all("source" not in one for one in less["hidden"])


async def test_a_tool_is_called_without_a_model(tmp_path: Path) -> None:
    async with place(tmp_path / "h", tools={"deny": ["ls"]}) as here:
        workspace = Path(here.app.settings.agents["main"].workspace)
        (workspace / "note.txt").write_text("found me")
        done = await here.call("tools.invoke", name="read", args={"path": "note.txt"})
        broken = await here.call("tools.invoke", name="read", args={"path": "none.txt"})
        away = [await here.call("tools.invoke", name=name, args={}) for name in ("exec", "bash", "ls", "nothing")]
    assert done["ok"] and "found me" in done["output"]["content"][0]["text"]
    assert not broken["ok"] and broken["error"]["code"] == "tool_error"
    assert [one["error"]["code"] for one in away] == ["not_found"] * 4
