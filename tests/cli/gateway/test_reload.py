"""A changed config file: what acts at once, what needs a restart, what is not used; and a whole gateway doing it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cli.place import SRC
from palinurus.cli.gateway.reload import (
    apply_live_settings,
    judge_config,
    list_differences,
    wait_for_turns,
    watch_config,
)
from palinurus.config.load import load_config
from palinurus.gateway import token
from palinurus.testing.clock import FakeClock, run_ready_tasks


def write(home: Path, **config: object) -> None:
    home.mkdir(exist_ok=True)
    (home / "palinurus.json").write_text(json.dumps(config))


def test_differences_are_named_two_levels_deep(tmp_path: Path) -> None:
    write(tmp_path / "h", gateway={"port": 1111})
    old = load_config(str(tmp_path / "h"), {})
    write(tmp_path / "h", gateway={"port": 2222, "http": {"endpoints": {"responses": {"enabled": False}}}})
    new = load_config(str(tmp_path / "h"), {})
    assert set(list_differences(old.settings, new.settings)) == {"gateway.port", "gateway.responses", "version"}
    change = judge_config(old.settings, new)
    assert set(change.live) == {"gateway.responses", "version"} and change.restart == ()  # the port stays
    assert apply_live_settings(old.settings, new.settings).gateway.responses is False
    write(tmp_path / "h", gateway={"port": 1111, "controlUi": {"sharing": True}})  # one press on the page
    assert judge_config(old.settings, load_config(str(tmp_path / "h"), {})).restart == ()
    write(tmp_path / "h", session={"mainKey": "harbour"})
    assert "session.main_key" in judge_config(old.settings, load_config(str(tmp_path / "h"), {})).restart


async def test_a_file_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path / "h", gateway={"port": 1111})
    loaded, clock = load_config(str(tmp_path / "h"), {}), FakeClock()
    waiting = asyncio.ensure_future(watch_config(loaded, {}, clock))
    (tmp_path / "h" / "palinurus.json").write_text("{ broken")
    for _ in range(8):
        await run_ready_tasks()
        await clock.advance(1)
    assert not waiting.done()
    write(tmp_path / "h", session={"mainKey": "harbour"})
    for _ in range(8):
        await run_ready_tasks()
        await clock.advance(1)
    assert "session.main_key" in (await waiting).restart


async def test_a_file_that_is_included_is_watched_too(tmp_path: Path) -> None:
    home = tmp_path / "h"
    write(home, session={"$include": "session.json5"})
    loaded, clock = load_config(str(home), {}), FakeClock()  # the file is not there yet
    waiting = asyncio.ensure_future(watch_config(loaded, {}, clock))
    for _ in range(8):
        await run_ready_tasks()
        await clock.advance(1)
    assert not waiting.done()
    (home / "session.json5").write_text('{mainKey: "harbour"}')
    for _ in range(8):
        await run_ready_tasks()
        await clock.advance(1)
    assert "session.main_key" in (await waiting).restart


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_gateway_begins_again_in_its_process_where_it_was(tmp_path: Path) -> None:
    home = tmp_path / "h"
    write(home, agents={"defaults": {"workspace": str(tmp_path / "w")}})
    log = (tmp_path / "log").open("wb")
    command = [sys.executable, "-m", "palinurus", "--home", str(home), "gateway", "--port", "0"]
    process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": SRC})
    try:
        until(lambda: token.find_location(str(home)) is not None)
        first = token.find_location(str(home))
        write(home, agents={"defaults": {"workspace": str(tmp_path / "w2")}})
        until(lambda: (tmp_path / "log").read_text().count("is running") == 2)
        second = token.find_location(str(home))
        assert first and second and (first.pid, first.port) == (second.pid, second.port)
        assert (tmp_path / "w2").is_dir()
        process.send_signal(signal.SIGUSR1)
        until(lambda: (tmp_path / "log").read_text().count("is running") == 3)
        process.terminate()
        assert process.wait(20) == 0
        assert not (home / "gateway.starts").exists()
    finally:
        process.kill()
        process.wait()
        log.close()


async def test_a_changed_file_is_waited_for_as_long_as_the_config_says(tmp_path: Path) -> None:
    write(tmp_path / "h", gateway={"reload": {"debounceMs": 30_000}})
    loaded, clock = load_config(str(tmp_path / "h"), {}), FakeClock()
    waiting = asyncio.ensure_future(watch_config(loaded, {}, clock))
    write(tmp_path / "h", session={"mainKey": "harbour"})
    for _ in range(20):
        await run_ready_tasks()
        await clock.advance(1)
    assert not waiting.done()
    for _ in range(20):
        await run_ready_tasks()
        await clock.advance(1)
    assert "session.main_key" in (await waiting).restart


async def test_a_restart_waits_for_turns_but_not_for_ever_and_not_for_a_signal() -> None:
    told: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    clock, looks = FakeClock(0), iter([("a",), ("a",), ()])
    await wait_for_turns(lambda: next(looks), 300, clock, told)
    assert next(looks, None) is None  # it looked until none ran
    await wait_for_turns(lambda: ("a",), 0, clock, told)  # the time is up
    told.set_result(15)
    await wait_for_turns(lambda: ("a",), 300, clock, told)
