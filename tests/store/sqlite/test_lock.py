"""One gateway per state directory (I20), and directories that cannot be used (F10, F11)."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from palinurus.clock import SystemClock
from palinurus.errors import StateBroken, StateLocked, StateUnwritable
from palinurus.store.sqlite import open_sqlite_store
from palinurus.store.sqlite.database import open_for_writing
from palinurus.store.sqlite.lock import LOCK_NAME, StateLock, find_command, take_lock
from palinurus.store.sqlite.store import OpenedState, SqliteStore
from palinurus.testing.conformance.inbox import make_item
from store.sqlite.processes import command, on_tmpfs


async def test_a_second_one_is_told_who_holds_it(tmp_path: Path) -> None:
    store = await open_sqlite_store(str(tmp_path), SystemClock())
    with pytest.raises(StateLocked) as caught:
        await open_sqlite_store(str(tmp_path), SystemClock())
    assert str(os.getpid()) in caught.value.message
    assert "PALINURUS_HOME" in caught.value.fix
    assert caught.value.exit_code == 75
    await store.close()
    await (await open_sqlite_store(str(tmp_path), SystemClock())).close()


def test_the_lock_dies_with_its_process(tmp_path: Path) -> None:
    with subprocess.Popen(command("hold", tmp_path), stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(StateLocked, match=str(holder.pid)):
            take_lock(str(tmp_path))
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert (tmp_path / LOCK_NAME).read_text().strip() == str(holder.pid)  # left behind, and in nobody's way
        take_lock(str(tmp_path)).release()


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("palinurus", "--home", "/x", "gateway", "run"), "gateway"),
        (("/opt/venv/bin/pal", "agent", "-m", "hello"), "agent"),
        (("/opt/venv/bin/pal", "--profile=work"), "chat"),
        (("/opt/venv/bin/pal", "-p", "hello"), "print"),
        (("-c", "import pal"), ""),
    ],
)
def test_a_process_is_named_by_its_command(words: tuple[str, ...], command: str) -> None:
    line = ["sh", "-c", "echo; read _", *words]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()  # it has its own line by now
        assert find_command(str(process.pid)) == command
        process.kill()


def test_children_do_not_inherit_it(tmp_path: Path) -> None:
    lock = take_lock(str(tmp_path))
    with subprocess.Popen(["sleep", "60"], close_fds=False) as sleeper:
        lock.release()
        take_lock(str(tmp_path)).release()
        sleeper.kill()


def test_a_removed_lock_file_is_no_way_in_for_the_next(tmp_path: Path) -> None:
    first = take_lock(str(tmp_path))
    first.release()
    (tmp_path / LOCK_NAME).unlink()
    second = take_lock(str(tmp_path))
    with pytest.raises(StateLocked):
        take_lock(str(tmp_path))
    second.release()
    second.release()


async def test_a_lock_file_removed_under_a_gateway_lets_nobody_in(tmp_path: Path) -> None:
    store = await open_sqlite_store(str(tmp_path), SystemClock())
    (tmp_path / LOCK_NAME).unlink()
    with pytest.raises(StateLocked):
        await open_sqlite_store(str(tmp_path), SystemClock())
    await store.close()
    await (await open_sqlite_store(str(tmp_path), SystemClock())).close()


async def test_the_database_has_one_writer_whatever_the_lock_says(tmp_path: Path) -> None:
    """Where the kernel's lock does not hold (some network disks), the last one to open it writes, and no other."""

    def opened() -> SqliteStore:
        return SqliteStore(OpenedState(str(tmp_path), open_for_writing(str(tmp_path)), StateLock(), SystemClock()))

    await (await open_sqlite_store(str(tmp_path), SystemClock())).close()
    first = opened()
    await first.accept(make_item("m1"), claim=False)
    second = opened()
    await second.recover()
    with pytest.raises(StateBroken, match="another gateway"):
        await first.accept(make_item("m2"), claim=False)
    with pytest.raises(StateBroken, match="another gateway"):
        await first.put_record("a", "b", b"c")
    with pytest.raises(StateBroken, match="another gateway"):  # receipts, too
        await first.mark_delivered("r", "55", 2)
    await second.accept(make_item("m3"), claim=False)
    assert [row.id for row in await second.list_waiting("agent:main:a")] == ["m1", "m3"]
    await first.close()
    await second.close()


def test_not_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StateUnwritable, match="not a directory"):
            take_lock(str(path))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_somebody_elses(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 12345, 12345)
    with pytest.raises(StateUnwritable, match="belongs to user"):
        take_lock(str(home))
    assert not (home / LOCK_NAME).exists()


def test_read_only(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        with pytest.raises(StateUnwritable, match="cannot be written"):
            take_lock(str(tmp_path))
        tmp_path.chmod(0o700)
    done = on_tmpfs("refuse", tmp_path, "ro,mode=700")
    assert done.stdout.startswith(f"StateUnwritable {tmp_path} cannot be written"), done.stderr
    assert done.stdout.count("\n") == 1


def test_an_open_directory_is_closed_to_others(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    take_lock(str(home)).release()
    assert home.stat().st_mode & 0o777 == 0o700
