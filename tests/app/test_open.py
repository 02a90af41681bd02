"""`App.open`: everything is there, and nothing of it has begun."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, say
from support import inbound


def made(home: Path, channel: FakeChannel) -> App:
    home.mkdir(exist_ok=True)
    (home / "palinurus.json").write_text(json.dumps({"agents": {"list": [{"id": "main"}]}}))
    settings = load_config(str(home), {"HOME": str(home)}).settings
    return App(settings, {}, SystemClock(), model=ScriptedModel([say("hello")]), channels={"fake": channel})


async def test_what_waits_goes_on_waiting_until_the_start(tmp_path: Path) -> None:
    """A message that a killed gateway left, and the reply it owes: neither moves while the state is only open."""
    app = made(tmp_path / "home", FakeChannel())
    await app.open()
    while app.dispatcher.lanes.take("main"):  # until no lane is free: it stays on disk
        pass
    item = (await app.submit(inbound("hi"))).id
    await app.stop()

    channel = FakeChannel()
    app = made(tmp_path / "home", channel)
    await app.open()
    assert app.ready() == (False, ["starting"])
    row = await app.store.item(item)
    assert row is not None and row.state == "queued" and app.dispatcher.busy == ()
    assert app.program.tools and app.scheduler.jobs() == [] and not any(line.running for line in app.receivers.all())
    await app.stop()

    app = made(tmp_path / "home", channel)
    await app.start()
    assert app.ready() == (True, []) and (await app.wait(item)).note == "hello"
    await app.stop()


async def test_hooks_of_the_gateway_are_for_one_that_runs(tmp_path: Path) -> None:
    heard: list[str] = []
    for begin in ("open", "start"):
        app = made(tmp_path / "home", FakeChannel())
        for point in ("gateway_start", "gateway_stop"):
            app.hooks.on(point, lambda payload, at=point: heard.append(at))
        await getattr(app, begin)()
        await app.stop()
        assert heard == ([] if begin == "open" else ["gateway_start", "gateway_stop"])


async def test_what_was_never_opened_can_be_stopped(tmp_path: Path) -> None:
    await made(tmp_path / "home", FakeChannel()).stop()


async def test_a_stop_that_is_broken_off_can_be_asked_for_again(tmp_path: Path) -> None:
    app = made(tmp_path / "home", FakeChannel())
    await app.start()
    closed: list[Any] = []

    async def broken() -> None:
        if not closed:
            closed.append(1)
            raise RuntimeError("broken off")

    app.closers.append(broken)
    with pytest.raises(RuntimeError):
        await app.stop()
    await app.stop()
    assert not app.closers
