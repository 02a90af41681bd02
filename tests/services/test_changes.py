"""What runs changed, asked for, undone and done again: by the gateway's methods, in a chat, by an idle command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.whole import KEY, Place, place
from palinurus.clock import SystemClock
from palinurus.errors import BadRequest, NotFound
from palinurus.gateway.rpc import READ, WRITE
from palinurus.services.changes import ChangeKeeper, format_changes, format_outcome
from palinurus.testing.model import ScriptedModel, call_tools, say

WRITES = [
    call_tools(("write", {"path": "a.txt", "content": "one\n"})),
    say("done"),
    call_tools(
        ("edit", {"path": "a.txt", "oldText": "one", "newText": "two"}),
        ("write", {"path": ".env", "content": "KEY=do-not-show"}),
    ),
    say("done"),
]


def workspace(here: Place) -> Path:
    return Path(here.app.settings.agents["main"].workspace)


async def test_by_method(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([*WRITES, say("I see")])) as here:
        await here.say("write", "k1")
        await here.say("change", "k2")
        newest, oldest = (await here.call("changes.list"))["runs"]
        assert [one["path"] for one in oldest["files"]] == ["a.txt"] and newest["sessionKey"] == KEY
        told = await here.call("changes.get")
        assert told["run"] == newest["run"] and not told["undone"]
        env, text = told["files"]
        assert "diff" not in env and "withheld" in env and "do-not-show" not in str(told)
        assert text["diff"].splitlines()[-2:] == ["-one", "+two"] and (text["added"], text["removed"]) == (1, 1)
        async with here.other(scopes=(READ, WRITE)) as reader:  # who may read what was said learns names and sizes
            seen = await reader.call("changes.get", {})
            assert [one["path"] for one in seen["files"]] == [".env", "a.txt"] and "two" not in str(seen["files"])
        assert "changed  a.txt" in format_changes(told) and "+two" in format_changes(told)
        done = await here.call("changes.undo")
        assert done["run"] == newest["run"] and "Undid run" in format_outcome(done)
        assert (workspace(here) / "a.txt").read_text() == "one\n" and not (workspace(here) / ".env").exists()
        again = await here.refused("changes.undo", run=newest["run"])
        assert "is undone already" in again.message
        await here.call("changes.redo")
        assert (workspace(here) / ".env").read_text() == "KEY=do-not-show"
        (workspace(here) / "a.txt").write_text("mine\n")
        refusal = await here.refused("changes.undo", run=newest["run"][:20])
        assert "a.txt was changed since by somebody else" in refusal.message and "--force" in refusal.message
        await here.call("changes.undo", run=newest["run"], force=True)
        assert (workspace(here) / "a.txt").read_text() == "one\n"
        assert "changed no file" in (await here.refused("changes.get", run="../../state")).message
        assert "more than one" in (await here.refused("changes.get", run="0")).message


async def test_the_agent_is_told_with_its_next_turn(tmp_path: Path) -> None:
    model = ScriptedModel([*WRITES[:2], say("I see")])
    async with place(tmp_path / "h", model) as here:
        await here.say("write", "k1")
        await here.call("changes.undo")
        await here.say("and now?", "k2")
        assert "The owner has undone what you changed in 1 file." in str(model.requests[-1].messages)
        assert (await here.call("chat.why", sessionKey="main"))["asked"] == "and now?"  # in the person's words


async def test_in_a_chat(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel(WRITES)) as here:
        await here.say("write", "k1")
        await here.say("change", "k2")

        async def command(text: str, run: str) -> str:
            frames = await here.say(text, run)
            return str(frames[-1]["payload"]["message"]["content"])

        assert "a.txt" in (said := await command("/changes", "c1")) and "+two" not in said
        assert "Undid run" in await command("/undo", "c2")
        assert "Undid run" in await command("/undo", "c3")
        assert not (workspace(here) / "a.txt").exists()
        assert "There is nothing to undo" in await command("/undo", "c4")
        assert "Redid run" in await command("/redo", "c5")
        assert (workspace(here) / "a.txt").read_text() == "one\n"
        (workspace(here) / "a.txt").write_text("mine")
        assert "--force does it all the same" in await command("/undo", "c6")
        assert "Undid run" in await command("/undo --force", "c7")
        assert not (workspace(here) / "a.txt").exists()


async def test_a_later_run_is_named(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel(WRITES)) as here:
        await here.say("write", "k1")
        await here.say("change", "k2")
        newest, oldest = (await here.call("changes.list"))["runs"]
        refusal = await here.refused("changes.undo", run=oldest["run"])
        assert f"a.txt was changed since by run {newest['run']}" in refusal.message


async def test_a_command_that_is_run_again_after_a_crash_undoes_once(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel(WRITES)) as here:
        await here.say("write", "k1")
        await here.say("change", "k2")
        keeper = ChangeKeeper(here.app.settings, here.app.store)
        first: Any = await keeper.undo(ident="item-of-the-command")
        second: Any = await keeper.undo(ident="item-of-the-command")
        assert first == second and (workspace(here) / "a.txt").read_text() == "one\n"


async def test_a_run_that_goes_on_is_not_undone(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel(WRITES)) as here:
        await here.say("write", "k1")
        keeper = ChangeKeeper(here.app.settings, here.app.store)
        run = await keeper.find()
        row = await here.app.store.item(run.item)
        assert row is not None and row.outcome == "answered"
        keeper = ChangeKeeper(here.app.settings, _Going(here.app.store))  # type: ignore[arg-type]
        with pytest.raises(BadRequest, match="still going"):
            await keeper.undo()


class _Going:
    """A store in which every message is still being answered."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def item(self, ident: str) -> Any:
        row = await self._store.item(ident)
        return type("Row", (), {"outcome": None, "id": row.id})()


async def test_pruning_goes_by_the_settings_and_with_the_run(tmp_path: Path) -> None:
    changes = {"keepRuns": 1}
    async with place(tmp_path / "h", ScriptedModel(WRITES), tools={"changes": changes}) as here:
        await here.say("write", "k1")
        await here.say("change", "k2")
        keeper = ChangeKeeper(here.app.settings, here.app.store)
        now = SystemClock().now()
        await keeper.prune(now)
        (left,) = await keeper.list_runs()
        await keeper.prune(now + 31 * 86_400_000)
        assert await keeper.list_runs() == []
        with pytest.raises(NotFound):
            await keeper.find(left.item)
