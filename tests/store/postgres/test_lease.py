"""What a node believes of its lease, and the guard that ends it when it cannot do so itself."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from palinurus.clock import SystemClock
from palinurus.errors import StateBroken
from palinurus.store.postgres.lease import KILL, RENEW, TRUST, NodeLease
from palinurus.testing.clock import FakeClock, run_ready_tasks

LEASE = 6.0  # seconds in which a busy machine starts two processes
NODE = """
import asyncio, subprocess, sys
from palinurus.clock import SystemClock
from palinurus.store.postgres.lease import NodeLease

async def live(seconds):
    lease = NodeLease(SystemClock(), seconds)
    lease.start_guard()
    child = subprocess.Popen(["sh", "-c", "sleep 600 & wait"], start_new_session=True)
    print(lease._guard.pid, child.pid, flush=True)
    for line in iter(sys.stdin.readline, ""):
        lease.extend(SystemClock().boottime())
    await lease.close()

asyncio.run(live(float(sys.argv[1])))
"""


async def test_a_lease_is_trusted_for_a_part_of_it_only() -> None:
    clock = FakeClock()
    lease = NodeLease(clock, 10.0)
    await clock.advance(10.0 * TRUST - 0.1)
    await lease.confirm()
    await clock.advance(0.2)
    waiting = asyncio.ensure_future(lease.confirm())
    await run_ready_tasks()
    assert not waiting.done()
    lease.extend(clock.boottime())
    await waiting


async def test_a_machine_that_slept_does_not_trust_its_lease() -> None:
    clock = FakeClock()
    lease = NodeLease(clock, 10.0)
    clock.suspend(60.0)  # no timer of the process noticed
    waiting = asyncio.ensure_future(lease.confirm())
    await run_ready_tasks()
    assert not waiting.done()
    lease.end(StateBroken("others went on"))
    with pytest.raises(StateBroken, match="others went on"):
        await waiting


async def test_who_waits_for_a_lease_has_it_renewed_at_once() -> None:
    clock = FakeClock()
    lease = NodeLease(clock, 10.0)
    due = asyncio.ensure_future(lease.wait_due())
    await run_ready_tasks()
    clock.suspend(60.0)
    waiting = asyncio.ensure_future(lease.confirm())
    await due
    lease.extend(clock.boottime())
    await waiting


async def test_a_lease_is_renewed_when_that_of_another_may_be_over() -> None:
    clock = FakeClock()
    lease = NodeLease(clock, 10.0)
    lease.extend(clock.boottime(), soon=1.0)
    due = asyncio.ensure_future(lease.wait_due())
    await clock.until_sleeping()
    assert clock.slept[-1] < 10.0 * RENEW / 2
    due.cancel()


async def test_a_node_that_starts_has_longer_and_settles_before_it_runs_anything() -> None:
    clock = FakeClock()
    lease = NodeLease(clock, 10.0)
    lease.begin(clock.boottime(), 60.0)
    await clock.advance(40.0)
    assert lease.left > 0
    settled = asyncio.ensure_future(lease.settle())
    await lease.wait_due()  # at once
    assert not settled.done()
    lease.extend(clock.boottime())
    await settled
    assert lease.left == 10.0 * TRUST


def _start(seconds: float) -> tuple[subprocess.Popen[str], int, int]:
    """A node, the guard it has, and a command of it."""
    pipe = subprocess.PIPE
    node = subprocess.Popen([sys.executable, "-c", NODE, str(seconds)], stdin=pipe, stdout=pipe, text=True)
    assert node.stdout is not None
    guard, command = map(int, node.stdout.readline().split())
    return node, guard, command


async def _gone(pid: int) -> None:
    async with asyncio.timeout(60):
        while Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
            await asyncio.sleep(0.02)


async def test_a_node_that_is_stopped_is_ended_with_its_commands_before_others_take_over() -> None:
    began = SystemClock().boottime()
    node, guard, command = _start(LEASE)
    try:
        os.kill(node.pid, signal.SIGSTOP)
        assert await asyncio.to_thread(node.wait, 60) == -signal.SIGKILL
        assert SystemClock().boottime() - began >= LEASE * KILL
        await _gone(command)
        await _gone(guard)
    finally:
        node.kill()


async def test_a_guard_leaves_a_node_alone_that_renews_its_lease_and_ends_with_it() -> None:
    node, guard, command = _start(30.0)
    try:
        assert node.stdin is not None
        node.stdin.write("again\n")
        node.stdin.close()
        assert await asyncio.to_thread(node.wait, 60) == 0
        await _gone(guard)
        os.kill(command, 0)
    finally:
        node.kill()
        os.killpg(command, signal.SIGKILL)


async def test_a_guard_whose_node_was_killed_ends() -> None:
    node, guard, command = _start(30.0)
    node.kill()
    node.wait()
    os.killpg(command, signal.SIGKILL)
    await _gone(guard)
