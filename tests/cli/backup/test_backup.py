"""`pal backup`: one file, taken while the gateway works; what comes out of it is what was there at one moment."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, until
from nursery import run_program
from palinurus.cli.backup import VARIABLE, run_backup
from palinurus.core.types.inbound import Sender
from palinurus.errors import BadRequest, NotFound, PalinurusError
from palinurus.store.factory import open_reader
from palinurus.store.sqlite import backup
from palinurus.testing.channel import FakeChannel
from palinurus.testing.home import check_home
from palinurus.testing.model import ScriptedModel, StreamGate, hold_at, say
from support import inbound

OWNER = Sender("me", owner=True, allowed=True)


def call(monkeypatch: pytest.MonkeyPatch, home: Path, *argv: str) -> None:
    monkeypatch.setenv("PALINURUS_HOME", str(home))
    assert run_backup(list(argv)) == 0


async def fill(home: Path, messages: int = 3) -> None:
    async with running(home, ScriptedModel([say("yes")], repeat=True)) as app:
        for number in range(messages):
            await app.wait((await app.submit(inbound(f"m{number}", event=f"e{number}", sender=OWNER))).id)
    (home / "workspace" / "notes.txt").write_text("remember the milk\n")


def files(home: Path) -> dict[str, bytes]:
    kept = (path for path in home.rglob("*") if path.is_file() and not path.name.startswith(("state.db", "gateway.")))
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in kept
        if not path.name.endswith(".lock") and not {"backups", "cache"} & {*path.parts} and path.suffix != ".sqlite"
    }


async def test_there_and_back_is_the_same_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await fill(tmp_path / "h")
    call(monkeypatch, tmp_path / "h", "create", str(tmp_path / "b"))
    assert (tmp_path / "b").stat().st_mode & 0o77 == 0 and not (tmp_path / "h" / backup.STAGE).exists()
    call(monkeypatch, tmp_path / "h", "verify", str(tmp_path / "b"))
    assert "sound: " in capsys.readouterr().out
    call(monkeypatch, tmp_path / "new", "restore", str(tmp_path / "b"))
    assert files(tmp_path / "new") == files(tmp_path / "h")
    assert check_home(str(tmp_path / "new")) == []
    with open_reader(str(tmp_path / "h")) as old, open_reader(str(tmp_path / "new")) as new:
        assert old.sessions() == new.sessions() and old.items() == new.items() and old.list_usage() == new.list_usage()
    async with running(tmp_path / "new", ScriptedModel([say("still here")])) as app:
        ident = (await app.submit(inbound("are you there?", event="later", sender=OWNER))).id
        assert (await app.wait(ident)).note == "still here"


async def test_taken_in_the_middle_of_work_it_holds_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight sessions talk without a pause while backups are taken: each is a sound home, each transcript the beginning
    of what it became."""
    home, stop = tmp_path / "h", False

    async def talk(app: Any, name: str) -> None:
        number = 0
        while not stop:
            number += 1
            message = inbound(f"{name} says {number}", event=f"{name}{number}", session=name, sender=OWNER)
            await app.wait((await app.submit(message)).id)

    async with running(home, ScriptedModel([say("yes")], repeat=True)) as app:
        talks = [asyncio.create_task(talk(app, f"s{n}")) for n in range(8)]
        await until(lambda: (home / "agents").exists())
        for number in range(5):
            await asyncio.to_thread(call, monkeypatch, home, "create", str(tmp_path / f"b{number}"))
        stop = True
        await asyncio.gather(*talks)
    for number in range(5):
        new = tmp_path / f"new{number}"
        call(monkeypatch, new, "restore", "--resume", str(tmp_path / f"b{number}"))
        for path in (new / "agents/main/sessions").glob("*.jsonl"):
            assert (home / path.relative_to(new)).read_bytes().startswith(path.read_bytes())
        async with running(new, ScriptedModel([say("again")], repeat=True)) as app:
            for row in await app.store.list_running():
                await app.wait(row.id)
            with open_reader(str(new)) as reader:
                waiting = [row.id for row in reader.items(1000) if row.state != "done"]
            for ident in waiting:
                await app.wait(ident)
        # There is no channel here that takes the replies.
        assert [wrong for wrong in check_home(str(new)) if not wrong.endswith("is still pending")] == []


async def test_what_waited_then_is_not_done_again_unless_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gate, channel = StreamGate(), FakeChannel()
    async with running(tmp_path / "h", ScriptedModel([hold_at(say("done"), gate, 0)]), channel) as app:
        (ident,) = await channel.receive("pay the bill", event="e1")
        await gate.wait_reached()
        await asyncio.to_thread(call, monkeypatch, tmp_path / "h", "create", str(tmp_path / "b"))
        gate.open()
        await app.wait(ident)
        await until(lambda: bool(channel.seen))
    call(monkeypatch, tmp_path / "new", "restore", str(tmp_path / "b"))
    assert "messages that waited or ran then, 1;" in capsys.readouterr().out
    model, quiet = ScriptedModel([say("twice?")], repeat=True), FakeChannel()
    async with running(tmp_path / "new", model, quiet) as app:
        row = await app.store.item(ident)
        assert row is not None and (row.state, row.outcome) == ("done", "aborted")
    assert model.requests == [] and quiet.seen == []
    call(monkeypatch, tmp_path / "again", "restore", "--resume", str(tmp_path / "b"))
    async with running(tmp_path / "again", model, quiet) as app:
        assert (await app.wait(ident)).note == "twice?"


async def test_a_sealed_one_opens_with_its_passphrase_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(tmp_path / "h", 1)
    with pytest.raises(BadRequest, match="passphrase is needed"):
        call(monkeypatch, tmp_path / "h", "create", "--encrypt", str(tmp_path / "b"))
    monkeypatch.setenv(VARIABLE, "correct horse")
    call(monkeypatch, tmp_path / "h", "create", "--encrypt", str(tmp_path / "b"))
    assert b"remember the milk" not in (tmp_path / "b").read_bytes()
    call(monkeypatch, tmp_path / "new", "restore", str(tmp_path / "b"))
    assert files(tmp_path / "new") == files(tmp_path / "h")
    monkeypatch.setenv(VARIABLE, "battery staple")
    with pytest.raises(BadRequest, match="wrong passphrase"):
        call(monkeypatch, tmp_path / "third", "restore", str(tmp_path / "b"))
    assert not (tmp_path / "third").exists()


@pytest.mark.parametrize("sealed", [False, True])
async def test_one_that_was_cut_or_changed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sealed: bool
) -> None:
    await fill(tmp_path / "h", 1)
    monkeypatch.setenv(VARIABLE, "x")
    call(monkeypatch, tmp_path / "h", "create", *(["--encrypt"] if sealed else []), str(tmp_path / "b"))
    whole = (tmp_path / "b").read_bytes()
    for size in (len(whole) - 1, len(whole) // 2, 40, 11, 3):
        (tmp_path / "cut").write_bytes(whole[:size])
        with pytest.raises(PalinurusError):
            call(monkeypatch, tmp_path / "h", "verify", str(tmp_path / "cut"))
    for place in range(30, len(whole), max(1, len(whole) // 12)):
        (tmp_path / "bad").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            call(monkeypatch, tmp_path / f"n{place}", "restore", str(tmp_path / "bad"))
        except PalinurusError:
            continue
        assert not sealed  # gzip has bits that mean nothing; what comes out is the same then
        assert files(tmp_path / f"n{place}") == files(tmp_path / "h")


async def test_a_home_in_use_is_put_aside_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await fill(tmp_path / "h", 1)
    call(monkeypatch, tmp_path / "h", "create")
    call(monkeypatch, tmp_path / "h", "list", "--json")
    (row,) = json.loads(capsys.readouterr().out.partition("\n")[2])
    (tmp_path / "h/workspace/notes.txt").write_text("forget it\n")
    with pytest.raises(BadRequest, match="is not empty"):
        call(monkeypatch, tmp_path / "h", "restore", row["file"])
    async with running(tmp_path / "h", ScriptedModel([])):
        with pytest.raises(PalinurusError):
            await asyncio.to_thread(call, monkeypatch, tmp_path / "h", "restore", "--replace", row["file"])
    call(monkeypatch, tmp_path / "h", "restore", "--replace", row["file"])
    assert (tmp_path / "h/workspace/notes.txt").read_text() == "remember the milk\n"
    (aside,) = tmp_path.glob("h.before-*")
    assert (aside / "workspace/notes.txt").read_text() == "forget it\n"


@pytest.mark.parametrize(("point", "done"), [("restore.whole", False), ("restore.aside", True)])
async def test_a_restore_that_was_killed_is_finished_or_told_by_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, done: bool
) -> None:
    home, backed = tmp_path / "h", str(tmp_path / "b")

    def pal(*argv: str, crash: str = "") -> tuple[int, str]:
        found = run_program(*argv, env={**os.environ, "HOME": str(tmp_path), "PALINURUS_CRASH": crash})
        return found.returncode, found.stderr

    await fill(home, 1)
    call(monkeypatch, home, "create", backed)
    (home / "workspace/notes.txt").write_text("newer\n")
    assert pal("backup", "restore", "--replace", backed, crash=point)[0] == 137
    code, said = pal("sessions", "list")
    assert code == 0 and said.count("a restore was cut short") == 1 and not (tmp_path / "h.restoring").exists()
    assert (home / "workspace/notes.txt").read_text() == ("remember the milk\n" if done else "newer\n")
    old = [str(path) for path in tmp_path.glob("h.before-*")]
    assert len(old) == done and all(path in said for path in old)
    assert ("restore was" in pal("sessions", "list")[1]) is not done
    assert pal("backup", "restore", "--replace", backed)[0] == 0
    assert pal("sessions", "list") == (0, "") and check_home(str(home)) == []


async def test_no_home_no_backup_and_a_file_of_another_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound):
        call(monkeypatch, tmp_path / "none", "create")
    with pytest.raises(NotFound):
        call(monkeypatch, tmp_path / "none", "restore", str(tmp_path / "nothing"))
    (tmp_path / "x").write_text("hello")
    with pytest.raises(BadRequest, match="is no backup"):
        call(monkeypatch, tmp_path / "none", "verify", str(tmp_path / "x"))
    await fill(tmp_path / "h", 1)
    (tmp_path / "h" / backup.STAGE).mkdir()  # left by one that was killed
    os.mkfifo(tmp_path / "h/workspace/pipe")
    call(monkeypatch, tmp_path / "h", "create", str(tmp_path / "b"))
    with pytest.raises(BadRequest, match="there already"):
        call(monkeypatch, tmp_path / "h", "create", str(tmp_path / "b"))
