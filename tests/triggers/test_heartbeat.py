"""Heartbeats: an idle day costs nothing; a changed file, a due task or something to tell is asked about at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.core.schedule.heartbeat import HeartbeatHours, HeartbeatState
from palinurus.core.types.events import AgentEnd
from palinurus.core.types.inbound import Inbound, InlineDirectives
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.usage import TokenUsage
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import InboxRow, SessionRow, UsageRow
from palinurus.testing.clock import run_ready_tasks
from palinurus.tools.program.cron import CronJobMaker
from palinurus.triggers.scheduler import Scheduler
from support import inbound
from triggers.world import Inbox, Killed, World

KEY = "agent:main:main"


class Home(World):
    """A world with a workspace."""

    def __init__(self, root: Path, **beat: Any) -> None:
        super().__init__(str(root), **{"every": 1800.0, **beat})
        self.page = root / "w" / "HEARTBEAT.md"
        self.page.parent.mkdir(exist_ok=True)

    async def pass_(self, work: Scheduler, minutes: int, tick: int = 1) -> None:
        for _ in range(0, minutes, tick):
            await self.clock.advance(tick * 60)
            await self.look(work)

    async def look(self, work: Scheduler) -> None:
        await work.tick()
        for beat in work._beats.values():
            if beat._task is not None:
                await beat._task
        await run_ready_tasks(5)

    @property
    def beats(self) -> list[Inbound]:
        return list(self.inbox.taken.values())


def talked(world: World, at: int, **more: Any) -> None:
    record = msgspec.structs.replace(
        SessionRecord.fresh(SessionKey("main", "main"), 0, "s"), lastInteractionAt=at, **more
    )
    world.memory.rows[KEY] = SessionRow(KEY, "main", "s", at, record.encode())


@pytest.mark.parametrize("text", [None, "", "# Heartbeat\n\n- [ ]\n", "Look after the garden.\n"])
async def test_an_idle_day_costs_no_model_call(tmp_path: Path, text: str | None) -> None:
    world = Home(tmp_path)
    if text is not None:
        world.page.write_text(text)
    work = await world.up()
    await world.pass_(work, 60)  # what stands there is asked about once
    world.inbox.taken.clear()
    await world.pass_(work, 24 * 60, 5)
    assert world.beats == []
    assert work.heartbeats()["main"]["lastReason"] in ("not-due", "idle", "unchanged", "empty-heartbeat-file")


async def test_a_changed_file_is_asked_about_within_one_tick(tmp_path: Path) -> None:
    world = Home(tmp_path)
    world.inbox.answer = ("answered", "HEARTBEAT_OK")
    world.page.write_text("Look after the garden.\n")
    work = await world.up()
    await world.pass_(work, 31)
    assert len(world.beats) == 1
    await world.pass_(work, 3)
    world.page.write_text("Look after the garden and the dog.\n")
    await world.pass_(work, 1)
    assert (
        len(world.beats) == 2
        and work.last_heartbeat() | {"reason": "file-changed", "status": "ok-token"} == work.last_heartbeat()
    )  # type: ignore[operator]
    await work.close()
    work = await world.up()  # it is remembered over a start
    await world.pass_(work, 5)
    assert len(world.beats) == 2


async def test_tasks_have_their_own_intervals_and_only_due_ones_are_named(tmp_path: Path) -> None:
    world = Home(tmp_path)
    world.inbox.answer = ("answered", "HEARTBEAT_OK")
    world.page.write_text(
        "tasks:\n  - name: mail\n    interval: 2h\n    prompt: Urgent mail?\n"
        "  - name: sea\n    interval: 45m\n    prompt: High tide?\n"
    )
    work = await world.up()
    await world.pass_(work, 245, 5)
    names = [[line[2:6].rstrip(":") for line in b.text.splitlines() if line.startswith("- ")] for b in world.beats]
    assert names[0] == ["mail", "sea"] and names[1] == ["sea"]
    assert sum("mail" in n for n in names) == 2 and sum("sea" in n for n in names) == 5


async def test_events_and_people_wake_it_and_it_slows_down_when_nothing_is_found(tmp_path: Path) -> None:
    world = Home(tmp_path)
    world.inbox.answer = ("answered", "HEARTBEAT_OK")
    work = await world.up()
    await work.wake("The build is done", now=False)
    await world.pass_(work, 31)
    assert len(world.beats) == 1
    await work.events.take(KEY, world.beats[0].event)
    world.page.write_text("Be useful.\n")
    await world.pass_(work, 31)  # never asked about: with the next beat
    before, counts = len(world.beats), []
    for _ in range(8):
        talked(world, world.clock.now())
        await world.pass_(work, 30, 5)
        counts.append(len(world.beats) - before)
    assert counts[-1] in (1, 2, 3)  # somebody writes all the time, nothing is ever found: half as often each time


async def test_hours_running_turns_and_the_switch_hold_it_back(tmp_path: Path) -> None:
    world = Home(tmp_path, hours=HeartbeatHours(8 * 60, 22 * 60), timezone="UTC")
    world.page.write_text("x")
    work = await world.up()
    await world.pass_(work, 7 * 60, 10)
    assert world.beats == [] and work.heartbeats()["main"]["lastReason"] == "quiet-hours"
    world.inbox.held = True
    await world.inbox.submit(inbound("hi", event="p1", session=KEY))
    await world.pass_(work, 120, 10)
    assert len(world.beats) == 1 and work.heartbeats()["main"]["lastReason"] == "requests-in-flight"
    world.inbox.held = False
    world.inbox.ended["p1"] = ("answered", "hi")
    await work.set_heartbeats(False)
    await world.pass_(work, 60, 10)
    assert len(world.beats) == 1 and work.heartbeats()["main"]["lastReason"] == "disabled"
    await work.set_heartbeats(True)
    await world.pass_(work, 10, 10)
    assert len(world.beats) == 2


@pytest.mark.parametrize("kind", ["auth", "budget"])
async def test_it_stops_where_the_next_would_fail_too_and_says_so(tmp_path: Path, kind: Any) -> None:
    world = Home(tmp_path)
    world.inbox.answer = ("failed", "the key does not work")
    submit = world.inbox.submit

    async def failing(inbound: Inbound, sink: Any = None) -> Any:
        sink(AgentEnd((), "error", TokenUsage(), ModelFailure(kind, "the key does not work")))
        return await submit(inbound)

    world.inbox.submit = failing  # type: ignore[method-assign]
    world.page.write_text("tasks:\n - name: a\n   interval: 30m\n   prompt: b\n")
    work = await world.up()
    await world.pass_(work, 300, 10)
    assert len(world.beats) == 1
    assert work.heartbeats()["main"]["stopped"] == f"{kind}: the key does not work"
    assert world.told[-1][0] == "heartbeat" and world.told[-1][1]["status"] == "failed"
    await work.set_heartbeats(True)
    await world.pass_(work, 30, 10)
    assert len(world.beats) == 2


@pytest.mark.seed(123, 124, 127)
async def test_the_message_of_a_heartbeat(tmp_path: Path) -> None:
    world = Home(tmp_path, prompt="/think high Look around.", target="last", reasoning=True, model="fake/m")
    talked(world, 0, lastChannel="fake", lastTo="chat")
    world.page.write_text("x")
    work = await world.up()
    await world.pass_(work, 31)
    (beat,) = world.beats
    assert beat.text.startswith("Look around.") and beat.system and beat.push
    assert beat.options.inline == InlineDirectives("high", reasoning="on") and beat.options.model == "fake/m"
    assert (beat.target.channel, beat.target.to, beat.session) == ("fake", "chat", KEY)
    plain = Home(tmp_path, isolated=True, light=True)
    work = await plain.up()
    await plain.pass_(work, 31)
    (beat,) = plain.beats
    assert beat.text.startswith(
        "Read HEARTBEAT.md if it exists (workspace context). Follow it strictly. Do not infer or repeat old tasks from "
        "prior chats. If nothing needs attention, reply HEARTBEAT_OK."
    )
    assert not beat.push and beat.session.startswith("agent:main:cron:heartbeat:run:")
    assert beat.options.prompt_mode == "minimal"


async def test_what_a_beat_cost_is_shown(tmp_path: Path) -> None:
    world = Home(tmp_path)
    world.page.write_text("x")
    work = await world.up()
    event = f"heartbeat:main:{world.clock.now() + 1_800_000}"
    world.memory.ledger.append(UsageRow(event, "r", KEY, "main", "p", "m", 0, 10, 5, 0, 0, 0.25))
    await world.pass_(work, 31)
    last = work.last_heartbeat()
    assert last is not None and (last["costUsd"], last["tokens"], last["status"]) == (0.25, 15, "skipped")
    shown = work.heartbeats()["main"]
    assert (shown["count"], shown["costUsd"], shown["every"]) == (1, 0.25, "30m")


async def test_one_that_a_stop_cut_in_two_is_counted_when_it_has_ended(tmp_path: Path) -> None:
    world = Home(tmp_path)
    world.page.write_text("x")
    world.inbox.held = True
    work = await world.up()
    await world.clock.advance(1800)
    await work.tick()
    (beat,) = world.beats
    world.memory.ledger.append(UsageRow(beat.event, "r", KEY, "main", "p", "m", 0, 10, 5, 0, 0, 0.25))
    await work.close()  # the gateway is killed, and started again
    work = await world.up()
    await work.tick()
    await run_ready_tasks()
    assert work.heartbeats()["main"]["count"] == 0
    world.inbox.held = False
    world.inbox.ended[beat.event] = ("answered", "HEARTBEAT_OK")
    await world.clock.advance(2)
    await world.pass_(work, 3)
    shown = work.heartbeats()["main"]
    assert (shown["count"], shown["costUsd"]) == (1, 0.25) and len(world.beats) == 1
    await work.close()


async def test_in_a_session_of_its_own_it_is_told_what_waits_once_and_takes_nothing_away(tmp_path: Path) -> None:
    world = Home(tmp_path, isolated=True)
    world.inbox.answer = ("answered", "HEARTBEAT_OK")
    work = await world.up()
    await work.wake("The build is done", now=False, maker=CronJobMaker(source="client x"))
    await world.pass_(work, 24 * 60, 10)
    (beat,) = world.beats
    assert beat.text.startswith("System: The build is done\n") and beat.source == "client x"
    assert work.events.has_waiting(KEY)
    await work.wake("The ship is in", now=False)
    await world.pass_(work, 31)
    assert len(world.beats) == 2 and "The ship is in" in world.beats[1].text


class BrokenInbox(Inbox):
    async def wait(self, item: str) -> InboxRow:
        raise RuntimeError("the row is torn")


async def test_a_beat_cut_in_two_whose_end_breaks_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = Home(tmp_path)
    world.inbox = BrokenInbox(world.clock, world.memory)
    state = HeartbeatState(last=world.clock.now(), item="cut")
    world.memory.records["heartbeat", "main"] = msgspec.json.encode(state)
    work = await world.up()
    await world.look(work)
    assert "the row is torn" in caplog.text and "heartbeat of main" in caplog.text
    await work.close()


@pytest.mark.parametrize("write", range(1, 6))
async def test_whenever_we_are_killed_a_beat_is_asked_for_once(tmp_path: Path, write: int) -> None:
    """Between the message and the note that it was asked for, too: one beat may be missing, none comes twice."""
    world = Home(tmp_path)
    world.page.write_text("x")
    work = await world.up()
    await world.pass_(work, 31)
    assert len(world.beats) == 1
    world.page.write_text("y")
    await world.clock.advance(1800)
    world.memory.dies = world.memory.writes + write
    try:
        await world.look(work)
    except Killed:
        pass
    world.memory.dies = 0
    work = await world.up()
    await world.pass_(work, 25)
    assert len(world.beats) <= 2
    await work.close()
