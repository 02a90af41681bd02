"""Agents come and go by the config."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from gateway.whole import place
from palinurus.config.load import load_config


def written(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home / "palinurus.json").read_text())["agents"]
    return found


async def test_agents_are_made_changed_and_taken_out(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with place(home) as here:
        made = await here.call("agents.create", name="Helper Two", workspace=str(tmp_path / "ws"), emoji="🦉")
        assert made == {"ok": True, "agentId": "helper-two", "name": "Helper Two", "workspace": str(tmp_path / "ws")}
        settings = load_config(str(home), {}).settings
        assert set(settings.agents) == {"main", "helper-two"} and settings.default_agent == "main"
        assert settings.agents["helper-two"].workspace == str(tmp_path / "ws")
        again = await here.refused("agents.create", name="helper two", workspace="x")
        assert again.message == 'agent "helper-two" already exists'
        await here.call("agents.update", agentId="helper-two", name="Helper 2", model="fake/m")
        entry = written(home)["list"][1]
        assert (entry["name"], entry["model"], entry["identity"]) == ("Helper 2", "fake/m", {"emoji": "🦉"})
        await here.call("agents.update", agentId="helper-two", model="", emoji="")  # none of its own any more
        assert not {"model", "identity"} & written(home)["list"][1].keys()
        (tmp_path / "ws").mkdir()
        gone = await here.call("agents.delete", agentId="helper-two", deleteFiles=True)
        assert gone["removedBindings"] == 0 and (tmp_path / "ws").exists()
        assert [one["id"] for one in written(home)["list"]] == ["main"]
        assert (await here.refused("agents.delete", agentId="main")).message == '"main" cannot be deleted'
        assert (await here.refused("agents.update", agentId="nobody", name="x")).message == 'agent "nobody" not found'
        assert (await here.refused("agents.create", name="???", workspace="x")).message.startswith('"???" cannot')
        assert written(home)["defaults"]["model"] == {"primary": "fake/m"}


async def test_two_writers_of_one_file_never_mix(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        workspace = Path((await here.call("agents.files.list", agentId="main"))["workspace"])
        workspace.mkdir(parents=True, exist_ok=True)
        (workspace / "SOUL.md.part").symlink_to(tmp_path / "elsewhere")  # nobody's business: another name is used
        texts = [letter * 500_000 for letter in "abcdef"]
        calls = [here.call("agents.files.set", agentId="main", name="SOUL.md", content=text) for text in texts]
        assert all(done["ok"] for done in await asyncio.gather(*calls))
        assert (workspace / "SOUL.md").read_text() in texts
        assert [one.name for one in workspace.iterdir() if "tmp" in one.name] == []


async def test_a_change_of_a_config_that_is_broken_says_where_and_what_to_do(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with place(home) as here:
        (home / "palinurus.json").write_text("{\n  agents: {},\n  gateway: {port: }\n}")
        error = await here.refused("agents.create", name="helper", workspace=str(tmp_path / "w"))
        assert error.message.startswith("invalid config: ") and "palinurus.json:3)" in error.message
