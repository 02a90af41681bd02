"""Keepers that are used again: only by the same sandbox, only as good as new, never for long."""

from __future__ import annotations

import errno
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from palinurus.testing.clock import FakeClock
from palinurus.tools.sandbox.children import AT_ONCE, SERVICE, ChildHandles, KeeperPool, KeptChild
from palinurus.tools.sandbox.launch import prepare_launch, start_child, start_kept

REUSED = ("namespaces", "landlock", "bubblewrap")


@pytest.fixture
def pool() -> Any:
    made = KeeperPool()
    yield made
    made.close()


def start(pool: KeeperPool, room: Any, command: str, **changes: Any) -> KeptChild:
    cell = msgspec.structs.replace(room.cell, **changes)
    launch = prepare_launch(
        ("/bin/sh", "-c", command), str(room.workspace), {"PATH": "/usr/bin:/bin:/usr/local/bin"}, cell
    )
    none = subprocess.DEVNULL
    child = start_child(launch, stdin=none, stdout=none, stderr=none, pool=pool)
    assert isinstance(child, KeptChild)
    return child


def run(pool: KeeperPool, room: Any, command: str, **changes: Any) -> tuple[int, int]:
    """(exit code, keeper)"""
    child = start(pool, room, command, **changes)
    code = child.wait(60)
    child.close()
    return code, child.pid


@pytest.mark.parametrize("kind", REUSED)
def test_the_keeper_of_a_command_takes_the_next_one_of_its_sandbox(pool: KeeperPool, room_of: Any, kind: str) -> None:
    room = room_of(kind)
    first = run(pool, room, "exit 3")
    assert run(pool, room, "kill -TERM $$") == (-15, first[1])
    assert run(pool, room, "sleep 1000 & exit 4") == (4, first[1]), "what was left running is ended, and nobody minds"
    assert run(pool, room, "true", read=(*room.cell.read, str(room.user)))[1] != first[1]
    assert run(pool, room, "true") == (0, first[1])


@pytest.mark.parametrize("kind", REUSED)
def test_one_keeper_never_holds_two_commands(pool: KeeperPool, room_of: Any, kind: str) -> None:
    room = room_of(kind)
    sleepers = [start(pool, room, "sleep 1000") for _ in range(AT_ONCE + 2)]
    assert len({child.pid for child in sleepers}) == AT_ONCE + 2
    for child in sleepers:
        child.kill()
        assert child.wait(60) == -9
        child.kill()  # too late; the next command must not hear it
        child.close()
        child.kill()
    assert [run(pool, room, "true")[0] for _ in range(AT_ONCE + 2)] == [0] * (AT_ONCE + 2)


@pytest.mark.parametrize("kind", ["namespaces", "bubblewrap"])
@pytest.mark.parametrize("command", ["echo x > /dev/shm/left", "ipcmk -Q"])
def test_a_keeper_whose_sandbox_is_not_as_new_is_not_used_again(
    pool: KeeperPool, room_of: Any, command: str, kind: str
) -> None:
    room = room_of(kind)
    code, keeper = run(pool, room, command)
    assert code == 0 and run(pool, room, "true")[1] != keeper


@pytest.mark.parametrize("kind", REUSED)
def test_a_command_cannot_change_the_keeper_that_the_next_one_would_inherit_from(room_of: Any, kind: str) -> None:
    room = room_of(kind)
    target = "$PPID" if kind == "landlock" else "1"
    one = (f"prlimit --pid {target} --nofile=3", f"renice -n 5 -p {target}", f"taskset -p 1 {target}")
    crowd = ("renice -n 19 -u $(id -u)", "renice -n 19 -g $$", "ionice -c 3 -u $(id -u)")  # the gateway's, too
    for line in (*one, f"chrt -i -p 0 {target}", *crowd):
        code, out = room.run(line)
        assert code and "not permitted" in out, (line, out)


@pytest.mark.parametrize("kind", REUSED)
def test_no_command_makes_a_message_queue_that_the_next_one_would_find(room_of: Any, kind: str) -> None:
    made = "c = ctypes.CDLL(None, use_errno=True); print(c.mq_open(b'/left', 66, 384, None), ctypes.get_errno())"
    code = f"import ctypes; {made}"
    assert room_of(kind).run(f'{sys.executable} -I -c "{code}"') == (0, f"-1 {errno.EPERM}\n")


@pytest.mark.parametrize("kind", REUSED)
def test_a_folder_that_was_replaced_gets_a_new_keeper(
    pool: KeeperPool, room_of: Any, kind: str, tmp_path: Path
) -> None:
    room = room_of(kind)
    _, keeper = run(pool, room, "true")
    room.workspace.rename(tmp_path / "old")
    room.workspace.mkdir()
    code, other = run(pool, room, "echo new > here")
    assert code == 0 and other != keeper and (room.workspace / "here").exists()


def test_the_first_command_of_a_sandbox_makes_one_keeper_and_the_second_one_more(
    pool: KeeperPool, room_of: Any
) -> None:
    room, before = room_of("landlock"), set(psutil.Process().children())

    def count() -> int:
        return sum(len(one.children()) for one in psutil.Process().children() if one not in before)

    _, keeper = run(pool, room, "true")
    assert count() == 1
    assert run(pool, room, "true") == (0, keeper)
    until = time.monotonic() + 60
    while count() != 2 and time.monotonic() < until:
        time.sleep(0.005)
    assert count() == 2


async def test_one_that_served_its_time_is_let_go(room_of: Any) -> None:
    room, clock = room_of("landlock"), FakeClock()
    pool = KeeperPool(clock)
    _, keeper = run(pool, room, "true")
    await clock.advance(SERVICE - 1)
    assert run(pool, room, "true")[1] == keeper
    await clock.advance(2)
    assert run(pool, room, "true")[1] != keeper
    pool.close()


def test_a_closed_pool_keeps_nothing(room_of: Any) -> None:
    room, pool = room_of("landlock"), KeeperPool()
    child = start(pool, room, "true")
    pool.close()
    assert child.wait(60) == 0
    child.close()
    assert run(pool, room, "true") != (0, child.pid)
    pool.close()


def test_a_sandbox_that_can_change_its_keeper_is_used_once(pool: KeeperPool, room_of: Any) -> None:
    room = room_of("namespaces")
    for change in ({"nested": True}, {"alone": True}):
        assert run(pool, room, "true", **change)[1] != run(pool, room, "true", **change)[1]


@pytest.mark.parametrize("kind", REUSED)
@pytest.mark.parametrize("order", ["terminate", "kill", "close"])
def test_what_is_called_off_before_its_keeper_is_ready_never_begins(
    pool: KeeperPool, room_of: Any, kind: str, order: str
) -> None:
    room = room_of(kind)
    launch = prepare_launch(
        ("/bin/sh", "-c", "trap '' TERM; echo > begun"), str(room.workspace), {"PATH": "/usr/bin:/bin"}, room.cell
    )
    with open("/dev/null", "r+b") as nothing:
        child = start_kept(launch, ChildHandles(*[nothing.fileno()] * 3), pool=pool)
    getattr(child, order)()
    assert order == "close" or child.wait(60) in (-9, -15)
    child.close()
    assert run(pool, room, "true")[0] == 0  # made later than the one that was called off
    assert not (room.workspace / "begun").exists()
