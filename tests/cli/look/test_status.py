from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import msgspec
import pytest

from palinurus.cli.agent import run_agent as agent
from palinurus.cli.args import load_settings
from palinurus.cli.look.status import run_status
from palinurus.cli.main import main
from palinurus.cli.reach.embedded import start_embedded_gateway
from palinurus.clock import SystemClock
from palinurus.core.schedule.heartbeat import HeartbeatState
from palinurus.store.factory import open_store
from palinurus.triggers.heartbeat import KIND
from palinurus.triggers.scheduler import SWITCH


def test_without_a_gateway(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_status(["--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["gateway"], found["model"], found["sessions"], found["errors"]) == (False, "builtin/demo", 0, [])
    agent(["--local", "-m", "hello"])
    capsys.readouterr()
    run_status([])
    out = capsys.readouterr().out
    assert "not running" in out and "sessions  1" in out and "0 running, 0 waiting" in out


def test_failures_and_config_problems_are_shown(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (demo / "palinurus.json").write_text('{agents: {defaults: {model: "nobody/nothing"}}, gatway: {}}')
    assert agent(["--local", "-m", "hello"]) == 1
    assert "nobody" in capsys.readouterr().err
    run_status(["--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["errors"][0]["outcome"] == "failed" and "nobody" in found["errors"][0]["why"]
    assert any("gatway" in line for line in found["config"])


def test_a_model_without_a_key_is_no_model_in_order(
    demo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After `pal import` it was named as if it answered, and the doctor said "ok … no key"."""
    (demo / "palinurus.json").write_text('{agents: {defaults: {model: "anthropic/claude-opus-4-6"}}}')
    for line in (["status"], ["doctor"], ["models", "status"]):
        main(line)
        assert "no API key for Anthropic: set ANTHROPIC_API_KEY" in capsys.readouterr().out
    main(["doctor"])
    assert "fail  model: anthropic/claude-opus-4-6: no API key" in capsys.readouterr().out
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    for line in (["status"], ["doctor"], ["models", "status"]):
        main(line)
        assert "no API key" not in capsys.readouterr().out


async def test_a_chat_that_serves_is_no_gateway(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`pal status` said that one runs, `pal gateway status` and `pal dashboard` that none does."""
    served = await start_embedded_gateway(load_settings(os.environ), os.environ, SystemClock())
    try:
        assert await asyncio.to_thread(main, ["status"]) == 3
        assert f"not running; a chat or command in another terminal (process {os.getpid()})" in capsys.readouterr().out
        await asyncio.to_thread(main, ["doctor"])
        assert f"ok    gateway: not running; process {os.getpid()} serves" in capsys.readouterr().out
    finally:
        await served.close()


def test_a_broken_database_is_named(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (demo / "state.db").write_bytes(b"this is no database" * 500)
    assert run_status([]) == 3
    assert "pal doctor" in capsys.readouterr().out


def test_what_heartbeats_cost_and_why_there_are_none(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def write() -> None:
        store = await open_store(str(demo), SystemClock())
        beat = HeartbeatState(count=4, cost=0.02, stopped="auth: the key does not work")
        await store.put_record(KIND, "main", msgspec.json.encode(beat))
        await store.put_record(*SWITCH, b"off")
        await store.close()

    run_status([])
    assert "every 30 min\n" in capsys.readouterr().out
    asyncio.run(write())
    run_status([])
    out = capsys.readouterr().out
    assert "switched off; every 30 min, 4 so far for $0.0200 ($0.0050 each); stopped: auth: the key" in out
