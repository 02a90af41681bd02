"""The table and its records, with a shelf in memory: what is on disk when, and what a restart makes of it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec
import pytest

from palinurus.config.sections.tools import ProcessSettings
from palinurus.core.types.inbound import NO_OPTIONS, Inbound, Sender, Target, TurnOptions
from palinurus.core.types.sandbox import SandboxSpec
from palinurus.core.types.tool import ToolFailure
from palinurus.errors import DiskFull
from palinurus.store.port import StoreRecord
from palinurus.testing.clock import FakeClock
from palinurus.tools.commands.child import ChildSpec
from palinurus.tools.commands.record import KIND, CommandRecord, CommandRecords
from palinurus.tools.commands.running import CommandJob
from palinurus.tools.commands.table import SETTLED, CommandNotice, CommandTable
from palinurus.tools.sandbox.probe import detect_support
from palinurus.tools.sandbox.system import list_devices, list_readable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="starts shell commands")

ASKER = Inbound(
    Target("fake", "chat"), Sender("me", owner=True), "e", "a long text", 0, options=TurnOptions(model="x/y")
)


class Disk:
    """A shelf that remembers what was on it, in order."""

    def __init__(self) -> None:
        self.rows: dict[str, bytes] = {}
        self.diary: list[str] = []
        self.full = False

    async def put_record(self, kind: str, key: str, data: bytes | None, *, expect: bytes | None = b"") -> bool:
        assert kind == KIND
        if self.full:
            raise DiskFull("no space left")
        if data is None:
            self.rows.pop(key, None)
            self.diary.append("drop")
        else:
            self.rows[key] = data
            record = msgspec.json.decode(data, type=CommandRecord)
            self.diary.append("notice" if record.notice else "background" if record.background else "waited for")
        return True

    async def list_records(self, kind: str) -> list[StoreRecord]:
        return [StoreRecord(KIND, key, data, 0) for key, data in self.rows.items()]


class Told:
    def __init__(self, answer: bool = True) -> None:
        self.notices: list[CommandNotice] = []
        self.answer = answer

    async def __call__(self, notice: CommandNotice) -> bool:
        self.notices.append(notice)
        return self.answer


def job(command: str, **changes: Any) -> CommandJob:
    made = CommandJob(
        command, ChildSpec(("/bin/sh", "-c", command), "/", {}), None, "agent:main:main", "main", ASKER, 5
    )
    return msgspec.structs.replace(made, **changes)


def table(disk: Disk, told: Told, **settings: Any) -> CommandTable:
    return CommandTable(ProcessSettings(**settings), None, CommandRecords(disk), told)


async def settled(disk: Disk, *diary: str) -> None:
    async with asyncio.timeout(60):
        while disk.diary != list(diary):
            await asyncio.sleep(0.005)


async def test_the_record_is_there_before_the_command_and_goes_after_the_notice() -> None:
    disk, told = Disk(), Told()
    seen: list[list[str]] = []
    held = await table(disk, told).start(job("echo hi", check=lambda: seen.append(list(disk.diary))), background=True)
    assert seen == [["background"]]
    await settled(disk, "background", "notice", "drop")
    (notice,) = told.notices
    assert notice.text == f"Exec completed ({held.id}, code 0) :: hi" and notice.key == held.job.spec.mark
    assert notice.asker.text == "" and notice.asker.options == NO_OPTIONS and notice.asker.target == ASKER.target


@pytest.mark.skipif(not detect_support().landlock, reason="needs Landlock")
async def test_the_number_of_a_background_command_is_never_that_of_another() -> None:
    cell = SandboxSpec("landlock", list_readable(), list_devices())
    spec = ChildSpec(("/bin/sh", "-c", "true"), "/", {}, cell=cell)
    made, pids = table(Disk(), Told()), []
    for background in (True, False, False, True):
        held = await made.start(job("true", spec=spec), background=background)
        assert await held.wait(60)
        pids.append(held.child.pid)
    assert pids[0] not in pids[1:] and pids[1] == pids[2], "those that were waited for share a keeper"


async def test_what_cannot_be_started_leaves_no_record() -> None:
    disk, told = Disk(), Told()
    processes = table(disk, told)
    with pytest.raises(OSError):
        await processes.start(job("x", spec=ChildSpec(("/no/such",), "/", {})), background=True)

    def changed() -> None:
        raise ToolFailure("it has changed")

    with pytest.raises(ToolFailure):
        await processes.start(job("true", check=changed), background=True)
    assert disk.diary == ["background", "drop"] * 2 and processes.all() == ()


async def test_a_command_that_is_waited_for_gets_a_record_if_it_takes_its_time() -> None:
    disk, told = Disk(), Told()
    processes = table(disk, told)
    held = await processes.start(job("true"), background=False)
    assert await held.wait(10) and processes.all() == ()
    held = await processes.start(job(f"sleep {SETTLED * 2}"), background=False)
    assert processes.list_of_session("agent:main:main") == []  # nobody's to follow yet
    assert await held.wait(10)
    await settled(disk, "waited for", "drop")
    held = await processes.start(job("sleep 0.1; echo x"), background=False)
    assert not await held.wait(0.01)
    await processes.release(held)
    assert processes.list_of_session("agent:main:main") == [held]
    await settled(disk, "waited for", "drop", "background", "notice", "drop")
    assert len(told.notices) == 1


async def test_a_notice_that_cannot_be_given_now_is_given_after_the_next_start_under_the_same_key() -> None:
    disk, told = Disk(), Told(answer=False)
    held = await table(disk, told).start(job("echo late"), background=True)
    await settled(disk, "background", "notice")
    again = Told()
    assert await table(disk, again).recover() == 1
    await settled(disk, "background", "notice", "drop")
    assert again.notices == told.notices and again.notices[0].key == held.job.spec.mark
    assert await table(disk, again).recover() == 0 and len(again.notices) == 1


async def test_what_a_restart_finds() -> None:
    disk, told = Disk(), Told()
    base = CommandRecord("wee-owl", "m1", "agent:main:main", "main", "make\n all", 1, ASKER)
    for record in (
        msgspec.structs.replace(base, mark="a", background=True, notify=True),
        msgspec.structs.replace(base, mark="b", background=True, notify=False),
        msgspec.structs.replace(base, mark="c"),
    ):
        disk.rows[record.mark] = msgspec.json.encode(record)
    disk.rows["d"] = b"{broken"
    await table(disk, told).recover()
    async with asyncio.timeout(60):
        while disk.rows:
            await asyncio.sleep(0.005)
    (notice,) = told.notices
    assert notice.key == "a" and notice.text.startswith("Exec outcome unknown (wee-owl): ")
    assert "while this ran: make all." in notice.text


async def test_stopping_ends_everything_and_leaves_the_notice_for_the_next_start() -> None:
    disk, told = Disk(), Told()
    processes = table(disk, told)
    back = await processes.start(job("trap '' TERM; echo here; while :; do sleep 0.05; done"), background=True)
    async with asyncio.timeout(60):
        while not back.kept.total:
            await asyncio.sleep(0.005)
    await processes.close(grace=0.1)
    assert back.outcome is not None and back.outcome.reason == "stopped"
    assert told.notices == [] and disk.diary == ["background", "notice"]
    with pytest.raises(ToolFailure, match="stopping"):
        await processes.start(job("true"), background=False)


async def test_a_full_disk_stops_new_background_commands_and_loses_no_notice() -> None:
    disk, told = Disk(), Told()
    processes = table(disk, told)
    await processes.start(job("sleep 0.1; echo x"), background=True)
    disk.full = True
    with pytest.raises(DiskFull):
        await processes.start(job("echo never"), background=True)
    async with asyncio.timeout(60):
        while not told.notices:
            await asyncio.sleep(0.005)
    assert told.notices[0].text.endswith(":: x")


async def test_a_snippet_is_short_and_one_line() -> None:
    disk, told = Disk(), Told()
    await table(disk, told).start(job("seq 1 1000; exit 2"), background=True)
    await settled(disk, "background", "notice", "drop")
    head, _, snippet = told.notices[0].text.partition(" :: ")
    assert head.endswith("code 2)") and len(snippet) <= 180 and snippet.endswith("999 1000") and "\n" not in snippet


async def test_a_clock_of_ones_own() -> None:
    processes = CommandTable(clock=FakeClock())
    held = await processes.start(job("exec sleep 100"), background=True)
    held.end("killed", 0.05)
    await held.task
    (row,) = processes.all()
    assert (row.status, row.background, row.pty) == ("killed", True, False)
