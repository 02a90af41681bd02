"""What the agent can change under a command outside, and what is stopped meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from palinurus.core.types.approval import ApprovalAnswer, ApprovalRequest, ExecRules
from palinurus.tools.commands import descendants
from palinurus.tools.commands.exposure import MAX_TREE, fingerprint_tree, hold_still, is_exposed


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_folder_operands_and_links_expose(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    (other / "link").symlink_to(own / "x")
    roots = (str(own),)
    assert is_exposed(("git", "status"), str(own), roots)
    assert is_exposed(("cp", "a", str(own / "b")), str(other), roots)
    assert is_exposed(("x", f"--file={own}/b"), str(other), roots)
    assert is_exposed(("cat", "link"), str(other), roots)
    assert not is_exposed(("git", "status"), str(other), roots)


def test_the_fingerprint_changes_with_every_file(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    file = tmp_path / "a" / "b" / "c"
    file.write_text("1")
    seen = {fingerprint_tree(str(tmp_path))}
    assert fingerprint_tree(str(tmp_path)) in seen
    time.sleep(0.02)
    file.write_text("2")
    os.utime(file, (1, 1))
    seen.add(fingerprint_tree(str(tmp_path)))
    file.rename(file.with_name("d"))
    seen.add(fingerprint_tree(str(tmp_path)))
    assert len(seen) == 3 and MAX_TREE > 1000 and "large" not in seen


def stands(pid: int) -> bool:
    """Stopped; or it waits in vfork for a child that is (`D`), and will not go on before that one does."""
    if state(pid) != "D":
        return state(pid) == "T"
    found = [one.pid for one in descendants.list_processes().values() if one.parent == pid]
    return any(state(child) == "T" for child in found if Path(f"/proc/{child}").exists())


def test_a_command_that_has_no_keeper_yet_stops_nobody_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its number is 0 until its sandbox is made: the parent of the machine's first process."""
    signalled: set[int] = set()
    monkeypatch.setattr(descendants, "signal_each", lambda family, number: signalled.update(one.pid for one in family))
    spec = SimpleNamespace(cell=SimpleNamespace(write=(str(tmp_path),)), mark="nobody has this")
    going: Any = SimpleNamespace(running=True, job=SimpleNamespace(spec=spec), child=SimpleNamespace(pid=0))
    with hold_still((going,), (os.path.realpath(tmp_path),)):
        pass
    assert not signalled


async def test_what_runs_contained_stands_still_while_a_question_is_open(ctx: Any, do: Any, workspace: Path) -> None:
    cell = msgspec.structs.replace(ctx.settings.cell, write=(str(workspace),), accepted=True)
    ctx.set(cell=cell, rules=ExecRules())
    started = await do("exec", command="env -i sh -c 'echo $$ > pid; while :; do sleep 0.05; done'", background=True)
    assert started.details["status"] == "running"
    while not (workspace / "pid").exists() or not (workspace / "pid").read_text():
        await asyncio.sleep(0.01)
    pid, seen = int((workspace / "pid").read_text()), list[int]()

    async def ask(question: ApprovalRequest) -> ApprovalAnswer:
        async with asyncio.timeout(60):  # it stops when it is next given a processor
            while not stands(pid):
                await asyncio.sleep(0.01)
        seen.append(pid)
        return ApprovalAnswer("allow-once", "me")

    ctx.ask = ask
    result = await do("exec", command="make --version; true $HOME", elevated=True)
    assert seen == [pid], result.text
    assert state(pid) in "RSD"  # D: it waits for a disk
    os.kill(pid, signal.SIGKILL)
