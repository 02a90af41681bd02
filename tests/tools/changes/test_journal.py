"""What calls change is found, whoever changed it, and told from what others do."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from palinurus.core.types.changes import ChangeRules
from palinurus.tools.changes.archive import OpenCall, RunHeader
from palinurus.tools.changes.journal import ChangeJournal


def said(run: Any) -> dict[str, str]:
    return {change.path: change.what for change in run.changes}


async def test_file_tools(do: Any, ctx: Any, workspace: Path, kept: Any) -> None:
    (workspace / "old.txt").write_text("one\ntwo\n")
    await do("write", path="new/deep/a.txt", content="hello")
    await do("edit", path="old.txt", oldText="two", newText="three")
    await do("apply_patch", input="*** Begin Patch\n*** Add File: b.txt\n+b\n*** End Patch")
    assert said(kept()) == {
        "b.txt": "created",
        "new": "created",
        "new/deep": "created",
        "new/deep/a.txt": "created",
        "old.txt": "changed",
    }
    assert [change.tool for change in kept().changes if change.path == "old.txt"] == ["edit"]


async def test_what_a_command_does(do: Any, ctx: Any, workspace: Path, kept: Any) -> None:
    for name in ("gone", "touched", "script", "moved", "same"):
        (workspace / name).write_text(name)
    os.chmod(workspace / "script", 0o644)
    (workspace / "link").symlink_to("same")
    command = (
        "rm gone; touch touched; chmod 755 script; mv moved elsewhere; mkdir -p d; printf '\\0\\1' > d/bin; "
        "ln -sfn gone link; echo more >> same; git init -q repo 2>/dev/null || mkdir -p repo/.git; echo x > repo/.git/x"
    )
    await do("exec", command=command)
    assert said(kept()) == {
        "d": "created",
        "d/bin": "created",
        "elsewhere": "created",
        "gone": "deleted",
        "link": "changed",
        "moved": "deleted",
        "repo": "created",
        "same": "changed",
        "script": "mode",
    }


async def test_a_file_that_is_as_before_in_the_end_is_no_change(do: Any, workspace: Path, journal: Any) -> None:
    (workspace / "a").write_text("1")
    await do("exec", command="echo 2 > a")
    await do("write", path="a", content="1")
    run = journal.archive.load("item-1")
    assert run is not None and run.changes == ()


async def test_others_who_write_between_the_calls_are_not_the_run(do: Any, workspace: Path, kept: Any) -> None:
    await do("exec", command="touch by-run")
    (workspace / "by-hand").write_text("mine")
    await do("exec", command="touch by-run-2")
    assert said(kept()) == {"by-run": "created", "by-run-2": "created"}


async def test_a_call_that_runs_beside_a_command_keeps_its_own(do: Any, ctx: Any, kept: Any) -> None:
    slow = asyncio.ensure_future(do("exec", command="until test -e b; do sleep 0.02; done; echo x > a"))
    await asyncio.sleep(0.2)
    ctx.item = "item-2"
    await do("write", path="b", content="b")
    await slow
    assert said(kept("item-1")) == {"a": "created"} and said(kept("item-2")) == {"b": "created"}


async def test_what_goes_on_in_the_background_is_seen_later(do: Any, workspace: Path, journal: Any, kept: Any) -> None:
    await do("exec", command="until test -e go; do sleep 0.02; done; echo x > late; sleep 60", background=True)
    (workspace / "go").write_text("")
    async with asyncio.timeout(60):
        while not (workspace / "late").exists():
            await asyncio.sleep(0.02)
    await journal.refresh()
    assert said(kept())["late"] == "created"


async def test_a_second_write_in_the_same_moment_is_noticed(do: Any, workspace: Path, kept: Any) -> None:
    await do("exec", command="echo aa > f; true > other")
    await do("exec", command="echo bb > f")
    (change,) = [one for one in kept().changes if one.path == "f"]
    await do("exec", command="echo cc > f")
    assert [one for one in kept().changes if one.path == "f"] != [change]


@pytest.mark.parametrize("command", ["ls", "cat a | wc -l && git status", "grep -r x . ; echo done", "find . -name a"])
async def test_commands_that_only_read_cost_nothing(do: Any, home: Path, command: str) -> None:
    await do("exec", command=command)
    assert not (home / "changes" / "base").exists() or os.listdir(home / "changes" / "base") == []


@pytest.mark.parametrize("command", ["find . -delete", "sort -o f f", "git checkout .", "echo x > f", "echo $(rm f)"])
async def test_commands_that_may_write_are_watched(do: Any, home: Path, workspace: Path, command: str) -> None:
    (workspace / "f").write_text("x")
    await do("exec", command=command)
    assert os.listdir(home / "changes" / "base")


async def test_a_large_workspace_is_not_looked_at_and_that_is_said(
    do: Any, ctx: Any, workspace: Path, kept: Any
) -> None:
    ctx.set(changes=ChangeRules(files=10))
    for number in range(20):
        (workspace / str(number)).write_text("x")
    await do("exec", command="echo y > 3")
    assert said(kept()) == {} and "more than 10 files" in kept().notes[0]
    await do("write", path="4", content="y")
    assert said(kept()) == {"4": "changed"}


async def test_a_large_file_is_seen_and_not_kept(do: Any, ctx: Any, workspace: Path, kept: Any) -> None:
    ctx.set(changes=ChangeRules(file_bytes=10))
    (workspace / "large").write_text("x" * 100)
    await do("exec", command="echo y > large")
    (change,) = kept().changes
    assert not change.before.kept and change.after.kept and change.before.size == 100


async def test_outside_the_workspace_nothing_is_kept_and_that_is_said(do: Any, tmp_path: Path, kept: Any) -> None:
    await do("write", path=str(tmp_path / "elsewhere.txt"), content="x")
    assert said(kept()) == {} and "outside the workspace" in kept().notes[0]


async def test_links_are_not_followed(do: Any, workspace: Path, tmp_path: Path, home: Path, kept: Any) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("the-secret-key")
    (workspace / "out").symlink_to(secret)
    await do("exec", command="touch a")
    assert said(kept()) == {"a": "created"}
    blobs = [path.read_text() for path in (home / "changes" / "blobs").rglob("*") if path.is_file()]
    assert "the-secret-key" not in blobs


async def test_off(do: Any, ctx: Any, home: Path) -> None:
    ctx.set(changes=ChangeRules(enabled=False))
    await do("exec", command="touch a")
    assert not (home / "changes").exists()


async def test_nothing_of_it_is_open_to_others(do: Any, home: Path) -> None:
    await do("exec", command="echo x > a")
    for path in (home / "changes").rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


@pytest.mark.parametrize("tool", ["exec", "write"])
async def test_what_a_killed_call_had_changed_is_found_at_the_next_start(
    do: Any, ctx: Any, workspace: Path, home: Path, tool: str
) -> None:
    """The call begins and never ends: its process is gone."""
    (workspace / "a").write_text("before")
    pid = os.fork()
    if pid == 0:  # the program that is killed
        journal = ChangeJournal(str(home))
        paths = (str(workspace / "a"),) if tool == "write" else ()
        asyncio.new_event_loop().run_until_complete(journal.begin(ctx, tool, {"command": "x"}, paths))
        (workspace / "a").write_text("after!")
        os._exit(9)
    os.waitpid(pid, 0)
    journal = ChangeJournal(str(home))
    assert journal.recover(ChangeRules()) == 1 and journal.recover(ChangeRules()) == 0
    run = journal.archive.load("item-1")
    assert run is not None and said(run) == {"a": "changed"}


async def test_what_was_there_before_is_not_the_runs_because_nobody_knows_it(workspace: Path, home: Path) -> None:
    """A killed program whose picture of the workspace is gone too (damaged, or thinned out by another process)."""
    (workspace / "a").write_text("mine")
    dead = RunHeader("item-1", "s", "main", str(workspace), at=1)
    before = ChangeJournal(str(home))
    before.archive.prepare()
    marker = before.archive.mark_open(OpenCall(dead, "exec"))
    os.rename(marker, os.path.join(os.path.dirname(marker), f"{(1 << 22) + 1}.x"))  # beyond what pids can be
    journal = ChangeJournal(str(home))
    assert journal.recover(ChangeRules()) == 1
    run = journal.archive.load("item-1")
    assert run is not None and said(run) == {} and "not known" in run.notes[0]
    assert journal.recover(ChangeRules()) == 0


async def test_pruning(do: Any, ctx: Any, workspace: Path, journal: Any) -> None:
    for number in range(5):
        ctx.item = f"item-{number}"
        await do("write", path="f", content=f"{number}" * 1000)
    archive = journal.archive
    assert archive.prune(0, 3, 1 << 30) == 2
    assert sorted(archive.list_runs()) == ["item-2", "item-3", "item-4"]
    assert archive.prune(0, 3, 1 << 30, gone={"item-3"}) == 1
    assert archive.prune(0, 3, 1500) >= 1
    left = [archive.load(item) for item in archive.list_runs()]
    for run in left:
        for change in run.changes:
            assert archive.blobs.get(change.after.hash, change.after.size) is not None
    assert archive.prune(10_000, 3, 1 << 30) == len(left) and not archive.list_runs()


async def test_what_takes_too_much_goes_at_once_and_what_is_needed_stays(
    do: Any, ctx: Any, workspace: Path, home: Path, kept: Any
) -> None:
    """Two calls write a quarter of what may be kept."""
    ctx.set(changes=ChangeRules(bytes=4000))
    (workspace / "base").write_text("b" * 100)
    for number in range(24):
        ctx.item = f"item-{number}"
        await do("exec", command=f"head -c 500 /dev/urandom > f{number % 3}")
    size = sum(path.stat().st_size for path in (home / "changes" / "blobs").rglob("*") if path.is_file())
    assert size <= 4000 + 1000
    last = kept("item-23")
    archive = ChangeJournal(str(home)).archive
    assert all(archive.blobs.get(one.after.hash, one.after.size) is not None for one in last.changes)


async def test_a_workspace_in_which_nothing_changes_for_long_is_forgotten(do: Any, home: Path, journal: Any) -> None:
    await do("exec", command="echo x > a")
    assert os.listdir(home / "changes" / "base")
    journal.prune(ChangeRules(), before=1 << 50)
    assert not os.listdir(home / "changes" / "base") and not journal.archive.list_runs()
    await do("exec", command="echo y > a")
    assert said(journal.archive.load("item-1")) == {"a": "changed"}
