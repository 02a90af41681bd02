"""Every run ends in exactly one terminal record within its deadline, whatever hangs or breaks, and its lane is free."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.types.inbound import Sender, TurnOptions
from palinurus.core.types.messages import UserMessage
from palinurus.store.port import InboxRow
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, say
from support import inbound

CONFIG = {
    "models": {"providers": {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m"}]}}},
    "agents": {"defaults": {"model": {"primary": "fake/m"}}},
}
BAD = "the bad one"


class Hang:
    """Something that does not come back; `release` lets it, so that the test can end."""

    def __init__(self) -> None:
        self._go = asyncio.Event()

    async def __call__(self, *_: Any) -> None:
        await self._go.wait()

    async def deaf(self, *_: Any) -> None:
        """Does not hear that it was cancelled either."""
        while not self._go.is_set():
            try:
                await self._go.wait()
            except asyncio.CancelledError:
                continue

    def release(self) -> None:
        self._go.set()


class BadModel(ScriptedModel):
    """Answers well, except in the run of the bad message, where it does what `fault` says."""

    def __init__(self, fault: str, hang: Hang) -> None:
        super().__init__([say("fine")], repeat=True)
        self._fault, self._hang = fault, hang

    async def stream(self, request: Any, stop: Any) -> Any:
        said = [m.text for m in request.messages if isinstance(m, UserMessage)]
        if said[-1] != BAD:
            async for event in super().stream(request, stop):
                yield event
        elif self._fault == "hangs":  # as a well-behaved provider hangs: a stop reaches it
            async for event in ScriptedModel([lambda _: self._gated()]).stream(request, stop):
                yield event
        elif self._fault == "ignores stop":
            await self._hang()
        elif self._fault == "ignores everything":
            await self._hang.deaf()
        elif self._fault == "raises":
            raise RuntimeError("a model that raises")

    def _gated(self) -> Any:
        return msgspec.structs.replace(say("x"), gates=((0, self._hang_gate()),))

    def _hang_gate(self) -> Any:
        class Never:
            async def wait_open(inner) -> None:
                await self._hang()

        return Never()


@asynccontextmanager
async def running(home: Path, model: Any, *channels: FakeChannel, timeout: float = 0.1) -> AsyncIterator[App]:
    home.mkdir(exist_ok=True)
    (home / "palinurus.json").write_text(json.dumps(CONFIG))
    settings = load_config(str(home), {}).settings
    agents = {name: msgspec.structs.replace(a, timeout=timeout) for name, a in settings.agents.items()}
    app = App(
        msgspec.structs.replace(settings, agents=agents),
        {},
        SystemClock(),
        model=model,
        channels={c.name: c for c in channels},
    )
    await app.start()
    app.dispatcher.grace = 0.1
    try:
        yield app
    finally:
        await app.stop()


async def ended(app: App, ident: str) -> InboxRow:
    async with asyncio.timeout(60):
        return await app.wait(ident)


async def one_end_and_a_free_lane(app: App, ident: str) -> None:
    """The record is there once, nothing runs, and the session takes the next message."""
    for name, agent in app.settings.agents.items():  # what is not meant to be late has all the time it needs
        app.settings.agents[name] = msgspec.structs.replace(agent, timeout=60)
    steps = [step.what for step in await app.store.trace(ident)]
    assert steps.count("settled") == 1
    for n in range(5):  # more than the lane has slots
        after = await ended(app, (await app.submit(inbound(f"after {n}"))).id)
        assert (after.outcome, after.note) == ("answered", "fine")
    async with asyncio.timeout(60):
        while app.dispatcher.lanes.busy:
            await asyncio.sleep(0.002)
    assert [step.what for step in await app.store.trace(ident)].count("settled") == 1


@pytest.mark.parametrize("fault", ["hangs", "ignores stop", "ignores everything", "raises", "says nothing"])
async def test_a_provider_that_fails_in_every_way(tmp_path: Path, fault: str) -> None:
    hang = Hang()
    late = fault not in ("raises", "says nothing")
    async with running(tmp_path / "h", BadModel(fault, hang), timeout=0.1 if late else 60) as app:
        try:
            made = await app.submit(inbound(BAD))
            row = await ended(app, made.id)
            assert row.outcome == ("silent" if fault == "says nothing" else "failed")
            await one_end_and_a_free_lane(app, made.id)
        finally:
            hang.release()


async def test_a_person_hears_of_a_turn_that_broke(tmp_path: Path) -> None:
    channel, hang = FakeChannel(), Hang()
    async with running(tmp_path / "h", BadModel("raises", hang), channel, timeout=60) as app:
        (ident,) = await channel.receive(BAD, event="1")
        row = await ended(app, ident)
        assert "a model that raises" in row.note
        trace = [step.what for step in await app.store.trace(ident)]
    assert trace.count("reply queued") == 1


@pytest.mark.parametrize("command", ["sleep 60", "trap '' TERM; sleep 60"])
async def test_a_tool_that_hangs(tmp_path: Path, command: str) -> None:
    model = ScriptedModel([call_tools(("exec", {"command": command})), say("fine")], repeat=True)
    async with running(tmp_path / "h", model, timeout=4) as app:  # it has to come so far
        made = await app.submit(inbound(BAD, sender=Sender("human", owner=True)))
        row = await ended(app, made.id)
        assert row.outcome == "failed"
        await one_end_and_a_free_lane(app, made.id)


@pytest.mark.parametrize("deaf", [False, True])
async def test_a_hook_before_a_tool_that_hangs(tmp_path: Path, deaf: bool) -> None:
    hang, model = Hang(), ScriptedModel([call_tools(("ls", {})), say("fine")], repeat=True)
    async with running(tmp_path / "h", model, timeout=4) as app:
        app.hooks.on("before_tool_call", hang.deaf if deaf else hang)
        try:
            made = await app.submit(inbound(BAD))
            row = await ended(app, made.id)
            assert row.outcome == "failed"
            await one_end_and_a_free_lane(app, made.id)
        finally:
            hang.release()


@pytest.mark.parametrize("point", ["message_sending", "message_received", "agent_end", "message_sent"])
async def test_hooks_around_the_run_that_hang(tmp_path: Path, point: str) -> None:
    hang, channel = Hang(), FakeChannel()
    async with running(tmp_path / "h", ScriptedModel([say("fine")], repeat=True), channel, timeout=60) as app:
        app.hooks.on(point, hang)
        try:
            (ident,) = await channel.receive("hello", event="1")
            assert (await ended(app, ident)).outcome == "answered"
            await one_end_and_a_free_lane(app, ident)
        finally:
            hang.release()


@pytest.mark.parametrize("fault", ["late", "raises", "down", "lost"])
async def test_a_channel_that_hangs_or_breaks(tmp_path: Path, fault: Any) -> None:
    channel = FakeChannel()
    channel.faults = [fault] * 3
    async with running(tmp_path / "h", ScriptedModel([say("fine")], repeat=True), channel, timeout=60) as app:
        (ident,) = await channel.receive("hello", event="1")
        assert (await ended(app, ident)).outcome == "answered"
        await one_end_and_a_free_lane(app, ident)
        channel.release()


# What a write does when it is refused: a trigger in the database, as a full disk would refuse it.
WRITES = {
    "claim": "BEFORE UPDATE ON inbox WHEN NEW.state = 'running'",
    "session": "BEFORE INSERT ON sessions",
    "user line": """BEFORE INSERT ON journal WHEN CAST(NEW.data AS TEXT) LIKE '%"role":"user"%'""",
    "intent": """BEFORE INSERT ON journal WHEN CAST(NEW.data AS TEXT) LIKE '%toolCall"%'""",
    "result": """BEFORE INSERT ON journal WHEN CAST(NEW.data AS TEXT) LIKE '%toolResult%'""",
    "settle": "BEFORE UPDATE ON inbox WHEN NEW.state = 'done'",
}


@pytest.mark.parametrize("write", WRITES)
async def test_a_store_that_refuses_a_write(tmp_path: Path, write: str) -> None:
    script = [call_tools(("exec", {"command": "echo once >> log"})), say("fine")]
    home = tmp_path / "h"
    async with running(home, ScriptedModel(script, repeat=True), timeout=60) as app:
        with closing(sqlite3.connect(home / "state.db", isolation_level=None)) as db:
            db.execute(f"CREATE TRIGGER broken {WRITES[write]} BEGIN SELECT RAISE(ABORT, 'refused'); END")
            made = await app.submit(inbound(BAD))
            if write == "claim":  # this one waits for a slot, and cannot have it
                made = await app.submit(inbound(BAD, options=TurnOptions(queue="followup")))
            await asyncio.sleep(0.15)
            found = await app.store.item(made.id)
            if write != "session":  # a turn whose session cannot be saved ends at once; the others wait
                assert found is not None and found.state in ("running", "queued")
            db.execute("DROP TRIGGER broken")
        row = await ended(app, made.id)
        assert row.outcome in ("answered", "failed") and row.note
        await one_end_and_a_free_lane(app, made.id)
    log = home / "workspace" / "log"
    assert not log.exists() or log.read_text() == "once\n"


async def test_steering_into_a_run_whose_store_refuses_it_is_in_one_run_only(tmp_path: Path) -> None:
    go, reached, home = asyncio.Event(), asyncio.Event(), tmp_path / "h"

    async def hook(_: dict[str, Any]) -> None:
        reached.set()
        await go.wait()

    model = ScriptedModel([call_tools(("ls", {})), say("fine")], repeat=True)
    async with running(home, model, timeout=60) as app:
        app.hooks.on("before_tool_call", hook)
        first = await app.submit(inbound("first"))
        await reached.wait()
        second = await app.submit(inbound("second"))
        with closing(sqlite3.connect(home / "state.db", isolation_level=None)) as db:
            db.execute(
                "CREATE TRIGGER broken BEFORE UPDATE ON inbox WHEN NEW.state = 'absorbed'"
                " BEGIN SELECT RAISE(ABORT, 'refused'); END"
            )
            go.set()
            await asyncio.sleep(0.15)
            db.execute("DROP TRIGGER broken")
        await ended(app, first.id)
        await ended(app, second.id)
        await one_end_and_a_free_lane(app, first.id)
    said = [m.text for m in model.requests[-1].messages if isinstance(m, UserMessage)]
    assert said.count("second") == 1
