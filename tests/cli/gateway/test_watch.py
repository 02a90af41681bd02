"""Runs that show no sign of life, what models are asked (diagnostics.stuckSession*, diagnostics.cacheTrace), and memory
that is given back."""

from __future__ import annotations

import asyncio
import json
import logging
import platform
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, settings, until
from palinurus.cli.gateway.watch import (
    QUIET,
    TRACE,
    CacheTrace,
    StuckRuns,
    give_back_memory,
    read_resident_bytes,
    trim_heap,
)
from palinurus.testing.clock import FakeClock
from palinurus.testing.model import ScriptedModel, StreamGate, hold_at, say
from support import inbound

HELD = ("systemPrompt", "prompt", "historyMessages")


@pytest.mark.parametrize(
    ("own", "held"),
    [
        ({}, set(HELD)),
        ({"includeMessages": False}, {"systemPrompt", "prompt"}),
        ({"includePrompt": False}, {"systemPrompt", "historyMessages"}),
        ({"includeSystem": False, "filePath": "~/elsewhere.jsonl"}, {"prompt", "historyMessages"}),
        ({"enabled": False}, None),
    ],
)
async def test_requests_are_written_as_the_config_says(
    tmp_path: Path, own: dict[str, Any], held: set[str] | None
) -> None:
    home = tmp_path / "h"
    if "filePath" in own:
        own = {**own, "filePath": str(tmp_path / "elsewhere.jsonl")}
    changes = {"diagnostics": {"cacheTrace": {"enabled": True, **own}}}
    rules = settings(home, **changes).diagnostics.cache_trace
    file = tmp_path / "elsewhere.jsonl" if "filePath" in own else home / TRACE
    async with running(home, ScriptedModel([say("one"), say("two")]), **changes) as app:
        CacheTrace(rules, str(home), app.clock, ("hunter22",)).attach(app.hooks)
        for text in ("first hunter22", "second hunter22"):
            await app.wait((await app.submit(inbound(text, event=text))).id)
    if held is None:
        assert not file.exists()
        return
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == 2 and {name for name in HELD if name in lines[1]} == held
    assert lines[1]["model"] == "m" and "read" in lines[1]["tools"]
    assert "hunter22" not in file.read_text() and file.stat().st_mode & 0o077 == 0
    if "prompt" in held:
        assert "second" in lines[1]["prompt"]
    if "historyMessages" in held:
        assert "first" in json.dumps(lines[1]["historyMessages"])


async def test_a_quiet_run_is_named_and_stopped_where_that_is_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = StreamGate()
    changes = {"diagnostics": {"stuckSessionWarnMs": 100, "stuckSessionAbortMs": 400}}
    with caplog.at_level(logging.WARNING):
        async with running(tmp_path / "h", ScriptedModel([hold_at(say("never"), gate)]), **changes) as app:
            stuck = StuckRuns(app.settings.diagnostics, app.clock, app.abort)
            app.follow(stuck)
            row = await app.wait((await app.submit(inbound("hello"))).id)
            await stuck.close()
    assert row.outcome == "aborted"
    assert "shows no sign of life" in caplog.text and "the model" in caplog.text


async def test_by_default_it_is_only_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gate = StreamGate()
    changes = {"diagnostics": {"stuckSessionWarnMs": 100}}
    with caplog.at_level(logging.WARNING):
        async with running(tmp_path / "h", ScriptedModel([hold_at(say("late"), gate)]), **changes) as app:
            stuck = StuckRuns(app.settings.diagnostics, app.clock, app.abort)
            app.follow(stuck)
            accepted = await app.submit(inbound("hello"))
            await until(lambda: "shows no sign of life" in caplog.text)
            gate.open()
            assert (await app.wait(accepted.id)).note == "late"
            await stuck.close()


async def test_memory_is_given_back_when_a_burst_is_over_and_only_then() -> None:
    clock, resident, runs, trimmed = FakeClock(), [50_000_000], [False], list[int]()

    def trim() -> None:
        trimmed.append(resident[0])
        resident[0] = 60_000_000

    task = asyncio.ensure_future(give_back_memory(lambda: runs[0], clock, lambda: resident[0], trim))
    for now, busy, wanted in (
        (57_000_000, False, 0),  # no more than usual
        (120_000_000, True, 0),  # it still works
        (110_000_000, False, 1),
        (67_000_000, False, 1),  # what was left counts, not the start
        (70_000_000, False, 2),
    ):
        resident[0], runs[0] = now, busy
        await until(lambda: clock.sleeper_count == 1)
        await clock.advance(QUIET)
        await until(lambda: clock.sleeper_count == 1)  # a thread trims
        assert len(trimmed) == wanted
    task.cancel()


def test_the_heap_of_this_process_is_known_and_trimmed_where_that_can_be() -> None:
    assert read_resident_bytes() > 1_000_000
    assert trim_heap() or platform.libc_ver()[0] != "glibc"
