"""Looking into an agent's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.whole import place
from palinurus.gateway.rpc import READ, WRITE, MethodError


async def test_memories_are_found_with_their_place(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        workspace = Path(here.app.settings.agents["main"].workspace)
        (workspace / "MEMORY.md").write_text("# Facts\n\nThe boat is called Halcyon.\n")
        found = await here.call("memory.search", query="Halcyon boat", minScore=0)
    assert found["agentId"] == "main" and found["results"][0]["path"] == "MEMORY.md"
    assert "Halcyon" in found["results"][0]["snippet"] and found["results"][0]["startLine"] >= 1


async def test_the_owners_memory_is_for_the_owner(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here, here.other(scopes=(READ, WRITE)) as reader:
        with pytest.raises(MethodError, match=r"operator\.admin"):
            await reader.call("memory.search", {"query": "Halcyon"})


async def test_nor_can_it_be_had_as_a_file_of_the_agent(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here, here.other(scopes=(READ, WRITE)) as reader:
        workspace = Path(here.app.settings.agents["main"].workspace)
        for name in ("MEMORY.md", "USER.md"):
            (workspace / name).write_text("The boat is called Halcyon.\n")
            with pytest.raises(MethodError, match=r"missing scope: operator\.admin"):
                await reader.call("agents.files.get", {"agentId": "main", "name": name})
            told = await here.call("agents.files.get", agentId="main", name=name)
            assert "Halcyon" in told["file"]["content"]
        (workspace / "SOUL.md").write_text("kind")
        soul = await reader.call("agents.files.get", {"agentId": "main", "name": "SOUL.md"})
        assert soul["file"]["content"] == "kind"
