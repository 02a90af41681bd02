"""A child that speaks JSON lines: noise, its end, what is left of an earlier one."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from palinurus.agent.runtimes.jsonlines import JsonLinesChild

ENV = {"PATH": os.environ["PATH"]}


async def start(code: str, cwd: Path, mark: str) -> JsonLinesChild:
    return await JsonLinesChild.start((sys.executable, "-c", code), str(cwd), ENV, mark)


async def test_what_is_no_object_is_passed_over_and_the_end_has_a_reason(tmp_path: Path) -> None:
    code = "import sys; print('[1]'); print('noise'); print('{\"a\": 1}'); print('why', file=sys.stderr); sys.exit(5)"
    lines = await start(code, tmp_path, "mark-noise")
    try:
        assert await lines.read() == {"a": 1} and await lines.read() is None
        assert await lines.exit_reason() == "it ended with code 5: why"
    finally:
        await lines.end()


async def test_one_that_does_not_end_is_killed_with_what_it_started(tmp_path: Path) -> None:
    child = "import time; time.sleep(60)"
    code = f"""
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", {child!r}], start_new_session=True)
print('{{"pid": %d}}' % child.pid, flush=True)
time.sleep(60)
"""
    lines = await start(code, tmp_path, "mark-family")
    said = await lines.read()
    assert said is not None
    await lines.end(0.05)
    assert not _alive(lines.pid)
    async with asyncio.timeout(60):
        while _alive(said["pid"]):
            await asyncio.sleep(0.01)


async def test_what_a_killed_process_of_ours_left_is_ended_before_the_same_work_begins_again(tmp_path: Path) -> None:
    code = "import time; print('{}', flush=True); time.sleep(60)"
    old = await start(code, tmp_path, "mark-same")
    other = await start(code, tmp_path, "mark-other")
    try:
        assert await old.read() == {} == await other.read()
        new = await start(code, tmp_path, "mark-same")
        assert await new.read() == {} and await old.read() is None
        assert _alive(other.pid)
        await new.end(0)
    finally:
        await old.end(0)
        await other.end(0)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
