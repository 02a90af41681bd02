"""Stopping a command: whoever stops it goes on when it can do nothing any more, and not before."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.core.types.sandbox import ProcessLimits, SandboxSpec
from palinurus.tools.commands.child import ChildSpec
from palinurus.tools.commands.record import CommandRecords
from palinurus.tools.commands.table import CommandTable
from tools.commands.test_table import Disk, Told, job

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="starts shell commands")


def list_others() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]


async def test_a_command_that_is_stopped_while_it_starts_never_begins(tmp_path: Path) -> None:
    """Seen in a fleet at load 22: its keeper took 0.6 s, its run was over by then, and it did its work."""
    begun, processes = tmp_path / "begun", CommandTable(records=CommandRecords(Disk()), tell=Told())
    own = SandboxSpec(limits=ProcessLimits(files=1009))  # nobody has a keeper ready for that
    spec = ChildSpec(("/bin/sh", "-c", f"echo > {begun}"), "/", {}, cell=own)
    starting = asyncio.ensure_future(processes.start(msgspec.structs.replace(job("x"), spec=spec), background=False))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert list_others() == set(), "its end is not waited for"
    assert not begun.exists()


async def test_a_command_that_is_stopped_as_it_goes_into_the_background_is_over_then(
    do: Any, processes: CommandTable, workspace: Path
) -> None:
    """… and nobody is woken by its end."""
    told, disk = Told(), Disk()
    gate, writing = asyncio.Event(), asyncio.Event()

    class Slow(CommandRecords):
        async def put(self, record: Any) -> None:
            if record.background:
                writing.set()
                await gate.wait()
            await super().put(record)

    processes._records, processes._tell = Slow(disk), told
    task = asyncio.ensure_future(do("exec", command="trap '' TERM; while :; do sleep 0.02; done", yieldMs=10))
    await writing.wait()
    (held,) = processes._held.values()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert held.outcome is not None and held.outcome.reason == "stopped"
    await held.task
    assert (told.notices, disk.rows) == ([], {})
