"""A watched command: it is compared, not told, and never holds anything up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from palinurus.testing.clock import run_ready_tasks
from palinurus.triggers.heartbeat import CommandWatch
from triggers.test_heartbeat import Home


class Screen(Home):
    """A world whose watched command prints what the test says."""

    def __init__(self, root: Path, **beat: Any) -> None:
        super().__init__(root, **{"watch": "git log -1", **beat})
        self.prints: str | None = "a"
        self.looks: list[tuple[str, str, float]] = []

    async def run(self, key: Any, command: str, limit: float) -> str | None:
        self.looks.append((str(key), command, limit))
        return self.prints

    async def half(self, work: Any, times: int) -> None:
        for _ in range(times):
            await self.pass_(work, 31, 31)
            await self.look(work)  # the command has ended


async def test_only_another_output_is_worth_a_beat(tmp_path: Path) -> None:
    world = Screen(tmp_path)
    world.inbox.answer = ("answered", "HEARTBEAT_OK")
    work = await world.up()
    await world.half(work, 48)  # a day
    assert world.beats == [] and 45 <= len(world.looks) <= 49  # it ran as often as beats may come, nobody was asked
    assert world.looks[0] == ("agent:main:main", "git log -1", 60.0)
    world.prints = None  # it fails: that is no change
    await world.half(work, 2)
    assert world.beats == []
    world.prints = "b"
    await world.half(work, 2)
    (beat,) = world.beats
    assert "The watched command prints something else than before: git log -1" in beat.text
    last = work.last_heartbeat()
    assert last is not None and last["reason"] == "watch-changed"
    await world.half(work, 5)
    assert len(world.beats) == 1
    await work.close()
    world.prints = "c"  # while the program was off
    work = await world.up()
    await world.half(work, 2)
    assert len(world.beats) == 2
    await work.close()


async def test_a_slow_command_holds_nothing_up_and_is_ended_with_the_program(tmp_path: Path) -> None:
    world = Screen(tmp_path)
    held, ended = asyncio.Event(), []

    async def slow(*_: Any) -> str | None:
        try:
            await held.wait()
        except asyncio.CancelledError:
            ended.append(True)
            raise
        return "a"

    world.run = slow  # type: ignore[method-assign]
    work = await world.up()
    world.page.write_text("Look after the garden.\n")
    await world.pass_(work, 62, 31)
    assert len(world.beats) == 1  # the file was asked about meanwhile
    await work.close()
    assert ended == [True]


async def test_one_that_breaks_is_logged_and_started_again(caplog: Any) -> None:
    done = []

    async def broken() -> str | None:
        raise ValueError("no shell")

    watch = CommandWatch("x", broken, lambda: done.append(True))
    for at in (1, 2):
        watch.look(at)
        watch.look(at + 10)  # it runs: not twice at once
        await run_ready_tasks()
    assert done == [True, True] and watch.digest == "" and watch.looked == 2
    assert "could not be run" in caplog.text


async def test_another_command_begins_anew(tmp_path: Path) -> None:
    world = Screen(tmp_path)
    work = await world.up()
    await world.half(work, 2)
    await work.close()
    other = Screen(tmp_path, watch="git status")
    other.memory, other.clock, other.prints = world.memory, world.clock, "something else"
    work = await other.up()
    await other.half(work, 4)
    assert other.beats == []
    other.prints = "changed"
    await other.half(work, 2)
    assert len(other.beats) == 1
    await work.close()
