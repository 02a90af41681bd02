"""Clauses about what meets what: a word typed while a run goes, a night between two messages, the same event twice.
Each was green with its clause broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, settings, until
from flow.test_directives import mine, shown, tell
from flow.test_history import Leaping
from flow.test_queue import THREE, Held, heard
from nursery import run_program
from palinurus.app import App
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say


@pytest.mark.seed(381, 382)
@pytest.mark.parametrize("mode", ["followup", "collect", "interrupt"])
@pytest.mark.parametrize("alone", [True, False])
async def test_what_is_typed_of_the_queue_acts_on_the_message_that_comes_mid_run(
    tmp_path: Path, mode: str, alone: bool
) -> None:
    last = [say("one"), say("two")] if mode != "interrupt" else [say("two")]
    model = ScriptedModel([THREE, *last])
    async with running(tmp_path / "h", model) as app:
        tool = Held(app, 1)
        first = await app.submit(mine("first"))
        await tool.reached.wait()
        if alone:
            await tell(app, f"/queue {mode}")
        second = await app.submit(mine("second" if alone else f"second /queue {mode}"))
        tool.go.set()
        one, two = await app.wait(first.id), await app.wait(second.id)
    assert (
        two.note == "two"
        and heard(model)[-1].endswith("second")
        and len(model.requests) == (2 if mode == "interrupt" else 3)
    )
    assert (one.outcome, one.note == "one") == (("aborted", False) if mode == "interrupt" else ("answered", True))
    assert "second" not in str(heard(model, 1)) or mode == "interrupt"  # not steered into the run


@pytest.mark.seed(343, 346, 347)
async def test_a_night_ends_a_session_and_an_event_that_comes_twice_is_told_once(tmp_path: Path) -> None:
    told, clock, channel = list[tuple[str, dict[str, Any]]](), Leaping(), FakeChannel()
    model = ScriptedModel(["ok"], repeat=True)
    app = App(settings(tmp_path / "h"), {}, clock, model=model, channels={"fake": channel})
    await app.start()
    try:
        for point in ("message_received", "session_start", "session_end"):
            app.hooks.on(point, lambda payload, point=point: told.append((point, payload)))
        for event in ("e1", "e2"):
            first, again = await channel.receive("hello", event=event, times=2)
            assert first == again
            await app.wait(first)
            clock.passed += 30 * 3600 * 1000
        await app.hooks.drain()
    finally:
        await app.stop()
    assert sorted(point for point, _ in told) == ["message_received"] * 2 + ["session_end"] + ["session_start"] * 2
    (end,) = (payload for point, payload in told if point == "session_end")
    begun = [payload for point, payload in told if point == "session_start"]
    assert end["reason"] == "daily" and end["sessionId"] == begun[0]["sessionId"] == begun[1]["resumedFrom"]
    assert end["nextSessionId"] == begun[1]["sessionId"] and not begun[0]["resumedFrom"]
    assert [len(request.messages) for request in model.requests] == [1, 1]


@pytest.mark.seed(95, 102)
@pytest.mark.parametrize("inline", ["off", "on"])
async def test_the_later_word_counts_for_the_bubbles_of_a_run_that_began_with_one_of_its_own(
    tmp_path: Path, inline: str
) -> None:
    later, gate = {"on": "off", "off": "on"}[inline], StreamGate()
    first, second = call_tools(("ls", {"path": "."})), call_tools(("find", {"pattern": "*.md"}))
    model, channel = ScriptedModel([first, hold_at(second, gate, 0), say("done")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        run = await app.submit(mine(f"look /verbose {inline} /reasoning {inline}"))
        await gate.wait_reached()
        await tell(app, "/fast on", push=False)  # says nothing of bubbles
        await tell(app, f"/verbose {later}", push=False)
        gate.open()
        await app.wait(run.id)
        await until(lambda: "done" in shown(channel))
    bubbles = shown(channel, "tool")
    assert len(bubbles) == 1 and ("*.md" in bubbles[0]) is (later == "on")


@pytest.mark.seed(262, 260)
async def test_the_main_session_works_in_the_workspace_where_the_others_are_sandboxed(tmp_path: Path) -> None:
    box = {"mode": "non-main", "backend": "landlock", "workspaceRoot": str(tmp_path / "boxes")}
    agents = {"defaults": {"model": "fake/m", "sandbox": box}}
    model = ScriptedModel(["ok"], repeat=True)
    async with running(tmp_path / "h", model, FakeChannel(), agents=agents) as app:
        for where in ({}, {"session": "agent:main:explicit:other"}):
            await tell(app, "hi", **where)
    main, other = (
        request.prompt.stable.partition("Your working directory is: ")[2].split("\n")[0] for request in model.requests
    )
    assert main == str(tmp_path / "h" / "workspace") and other.startswith(f"{tmp_path / 'boxes'}/")
    assert ["## Sandbox" in request.prompt.stable for request in model.requests] == [False, True]


@pytest.mark.seed(261, 272)
@pytest.mark.parametrize("skip", [False, True])
def test_a_program_that_starts_makes_no_files_where_it_shall_not(tmp_path: Path, skip: bool) -> None:
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    (home / "palinurus.json").write_text(
        json.dumps({"agents": {"defaults": {"model": "builtin/demo", "skipBootstrap": skip}}})
    )
    env = {"PALINURUS_HOME": str(home), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    assert run_program("agent", "-m", "hello", env=env).returncode == 0
    assert bool(list((home / "workspace").glob("*.md"))) is not skip
