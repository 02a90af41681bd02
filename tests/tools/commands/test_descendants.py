"""Finding a command's processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from palinurus.tools.commands.descendants import (
    SystemProcess,
    find_descendants,
    find_strays,
    list_processes,
    order_by_descent,
    read_start_time,
    signal_family,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_we_are_there_with_our_parent() -> None:
    me = list_processes()[os.getpid()]
    assert (me.parent, me.group, me.session) == (os.getppid(), os.getpgrp(), os.getsid(0))
    assert me.start == read_start_time(os.getpid()) > 0
    assert read_start_time(2**22 + 1) == 0


def test_a_marked_stranger_belongs_and_others_do_not() -> None:
    env = {"PATH": os.environ["PATH"]}
    ours = subprocess.Popen(["sleep", "100"], env={**env, "M": "mark-17"}, start_new_session=True)
    other = subprocess.Popen(["sleep", "100"], env=env, start_new_session=True)
    try:
        with open(f"/proc/{ours.pid}/environ", "rb") as file:
            assert b"M=mark-17" in file.read()
        found = {p.pid for p in find_descendants(2**22 + 1, "M=mark-17", read_start_time(ours.pid))}
        assert found == {ours.pid}
        assert {p.pid for p in find_descendants(other.pid, "M=none", read_start_time(other.pid))} == {other.pid}
        assert find_descendants(2**22 + 1, "M=mark-17", 2**60) == set()  # nothing is that young
        assert {ours.pid} == {p.pid for p in find_strays(("M=none", "M=mark-17"))}
        for another in ("M=mark-1", "M=mark-178", "=mark-17", "M="):  # a mark that begins alike is another's
            assert find_strays((another,)) == set()
    finally:
        for process in (ours, other):
            process.kill()
            process.wait()
    assert ours.pid not in list_processes()


def test_a_reused_pid_is_not_signalled() -> None:
    child = subprocess.Popen(["sleep", "100"], start_new_session=True)
    try:
        signal_family(
            2**22 + 1, {SystemProcess(child.pid, 0, 2**22 + 1, 0, read_start_time(child.pid) + 1)}, signal.SIGKILL
        )
        assert child.poll() is None
        signal_family(
            child.pid, {SystemProcess(child.pid, 0, child.pid, 0, read_start_time(child.pid))}, signal.SIGKILL
        )
        assert child.wait(5) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()


def test_parents_come_before_their_children_whatever_their_numbers() -> None:
    """A shell whose `sleep` was killed before it went on with its next line until its turn came."""
    shell, inner, sleep, other = (SystemProcess(*ids, 0, 0, start=1) for ids in ((90, 7), (50, 90), (10, 50), (60, 1)))
    found = order_by_descent({sleep, inner, shell, other})
    assert sorted(found, key=lambda one: one.pid) == [sleep, inner, other, shell]
    assert found.index(shell) < found.index(inner) < found.index(sleep)
    ring = {SystemProcess(3, 4, 0, 0, start=1), SystemProcess(4, 3, 0, 0, start=1)}
    assert set(order_by_descent(ring)) == ring
