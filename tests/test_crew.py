"""A crew runs every test once, whoever of it fails or dies."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crew import LONG, Shares, arrange
from nursery import Child
from support import find_programs

TESTS = """
import os, sys, time, pytest
from pathlib import Path

DONE = Path(__file__).with_name("done.txt")

@pytest.fixture(scope="session")
def shared():
    yield "made"
    with DONE.open("a") as out:
        out.write("cleared\\n")

@pytest.mark.parametrize("n", range(40))
def test_one(n, tmp_path, shared):
    with DONE.open("a") as out:
        out.write(f"{n} {tmp_path}\\n")
    print("said by", n)
    time.sleep(float(os.environ["PAUSE"]) if n > 21 else 0)
    if n == 7:
        os._exit(9)
    assert n != 21
"""
CONFTEST = """
import os
from crew import Crew

def pytest_configure(config):
    config.pluginmanager.register(Crew(config, 3, lost=float(os.environ["LOST"])), "crew")
"""


def run(folder: Path, *options: str, tests: str = TESTS, pause: float = 0, lost: float = 300) -> str:
    """`pause`: seconds that all after the one that fails take."""
    (folder / "test_it.py").write_text(tests)
    (folder / "conftest.py").write_text(CONFTEST)
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *options, "test_it.py"]
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    env |= {"TMPDIR": str(folder), "PAUSE": str(pause), "LOST": str(lost)}
    return subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True).stdout


def test_each_is_run_once_and_one_that_dies_takes_no_other_with_it(tmp_path: Path) -> None:
    out = run(tmp_path)
    lines = [line.split() for line in (tmp_path / "done.txt").read_text().splitlines()]
    assert Counter(line[0] for line in lines if len(line) == 2) == Counter(map(str, range(40)))
    assert len({line[1] for line in lines if len(line) == 2}) == 40  # folders of their own
    assert ["cleared"] in lines
    assert "2 failed, 38 passed" in out and "the process that ran it ended: 9" in out
    assert "said by 21" in out and "said by 22" not in out  # what it printed is told with the one that failed


def test_it_stops_at_the_first_failure_if_told_to(tmp_path: Path) -> None:
    out = run(tmp_path, "-x", pause=0.3)
    assert re.search(r"stopping after [12] failures", out) and "38 passed" not in out  # both may fail at once


STUCK = """
import signal, subprocess, sys, time, pytest

@pytest.mark.parametrize("n", range(6))
def test_one(n):
    if n == 1:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        wait_for_ever()

def wait_for_ever():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(9999.125)"])
    while True:
        child.wait()
"""


def test_one_that_never_ends_is_killed_with_its_children_and_says_where_it_was(tmp_path: Path) -> None:
    out = run(tmp_path, tests=STUCK.replace("9999.125", f"9999.{os.getpid()}"), lost=3)
    assert "1 failed, 5 passed" in out and "it was killed after 3.0 seconds (-9)" in out
    assert re.search(r"line \d+ in wait_for_ever", out)
    assert not find_programs(f"9999.{os.getpid()}")


@pytest.mark.parametrize("crew", [1, 2, 3, 7])
def test_shares_are_taken_whole_and_once(crew: int) -> None:
    shares = Shares([(n * 10, n * 10 + 10) for n in range(crew)])
    taken = [shares.take(0) for _ in range(crew * 10)]
    assert sorted(taken) == list(range(crew * 10)) and taken[:10] == list(range(10))
    assert shares.take(0) == shares.take(crew - 1) == -1


def test_what_is_dear_begins_a_part(request: pytest.FixtureRequest) -> None:
    items = request.session.items
    order, parts = arrange(items, 3)
    assert len(order) == len(set(order)) == len(items) and set(order) == set(items)
    assert parts[0][0] == 0 and parts[-1][1] == len(items) and parts[0][1] == parts[1][0]


def test_nobody_waits_for_a_command_whose_nursery_was_killed(tmp_path: Path) -> None:
    parent: Any = SimpleNamespace(gone=False, maker=0)
    early, late = (Child(pid, str(tmp_path), parent) for pid in (1, 2))
    (tmp_path / "1").write_text("3 0.25")
    assert late.poll() is None
    parent.gone, before = True, Child.spent
    assert early.wait() == 3 and Child.spent == before + 0.25
    with pytest.raises(ChildProcessError, match="the nursery of 2 was killed"):
        late.wait()


def test_what_is_said_to_take_long_is_there() -> None:
    names = [name for row in LONG for name in (row if isinstance(row, tuple) else (row,))]
    assert [name for name in names if not (Path(__file__).parents[1] / name).exists()] == []
