"""A keeper goes into the cell, the gateway does not; the rules follow the folders that stand there now."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nosync import count_filters
from palinurus.tools.sandbox.launch import prepare_launch, start_child


def test_the_gateway_itself_is_not_held(room: Any, tmp_path: Path) -> None:
    before = count_filters()
    assert room.run("true").code == 0
    (tmp_path / "outside").write_text("still mine")
    assert "NoNewPrivs:\t0" in Path("/proc/self/status").read_text() and count_filters() == before <= 1
    assert subprocess.run(["/bin/cat", str(tmp_path / "outside")], capture_output=True).stdout == b"still mine"


def test_a_workspace_that_was_made_anew_is_open_again(room: Any) -> None:
    assert room.run("echo 1 > a && cat a").out == "1\n"
    shutil.rmtree(room.workspace)
    room.workspace.mkdir()
    assert room.run("echo 2 > a && cat a").out == "2\n"


def test_many_at_once(room: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: room.run(f"echo {n}; cat {room.root}/state/palinurus.json"), range(24)))
    assert [int(r.out.split()[0]) for r in results] == list(range(24))
    assert all(r.code != 0 and ("denied" in r.out or "No such" in r.out) for r in results)


def test_children_of_two_cells_cannot_reach_each_other(room: Any) -> None:
    nothing = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    first = start_child(prepare_launch(("/bin/sleep", "1000"), "/usr", {}, room.cell), **nothing)
    try:
        result = room.run(f"kill -0 {first.pid}; cat /proc/{first.pid}/environ")
        assert result.code != 0 and any(word in result.out for word in ("not permitted", "No such process"))
        assert "denied" in result.out or "No such file" in result.out
        assert first.poll() is None
    finally:
        first.kill()
        first.wait(30)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to give up")
def test_root_keeps_little(room_of: Callable[..., Any]) -> None:
    out = room_of().run("grep Cap /proc/self/status").out
    held = {line.split(":")[0]: int(line.split()[1], 16) for line in out.splitlines()}
    assert held["CapEff"] == held["CapPrm"] == held["CapBnd"] == 0b100_1101_1011
    assert held["CapInh"] == held["CapAmb"] == 0
