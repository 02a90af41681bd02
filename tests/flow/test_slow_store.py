"""Whole messages through an App whose store takes its time to read, as one over a network does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import settings
from gateway.host import TOKEN
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.core.types.inbound import TurnOptions, decode_inbound
from palinurus.core.types.model import Model
from palinurus.gateway.server import GatewayServer
from palinurus.testing.channel import FakeChannel
from palinurus.testing.client import connect_to_gateway
from palinurus.testing.home import check_home
from palinurus.testing.model import ScriptedModel, StreamGate, hold_at, say
from palinurus.testing.slowstore import open_slow_store
from support import inbound


@asynccontextmanager
async def slow(home: Path, model: Model, *channels: FakeChannel, seed: int = 0) -> AsyncIterator[App]:
    app = App(settings(home), {}, SystemClock(), model=model, channels={c.name: c for c in channels})
    app.open_store = open_slow_store(seed, 0.05)
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


@pytest.mark.parametrize("seed", range(3))
async def test_messages_sent_one_after_the_other_are_accepted_in_that_order(tmp_path: Path, seed: int) -> None:
    gate = StreamGate()
    async with slow(tmp_path / "h", ScriptedModel([hold_at(say("first"), gate, 1), say("rest")]), seed=seed) as app:
        await app.submit(inbound("first"))
        await gate.wait_reached()
        later = TurnOptions(queue="followup")
        sent = await asyncio.gather(*(app.submit(inbound(f"m{n}", options=later)) for n in range(8)))
        waiting = [row.id for row in await app.store.list_waiting("agent:main:main")]
        assert waiting == [one.id for one in sent]
        gate.open()


async def test_a_client_that_does_not_wait_for_answers_is_taken_in_its_order(tmp_path: Path) -> None:
    gate = StreamGate()
    async with slow(tmp_path / "h", ScriptedModel([hold_at(say("first"), gate, 1), say("rest")])) as app:
        server = GatewayServer(app, app.clock, TOKEN)
        await server.start("127.0.0.1", 0)
        try:
            async with connect_to_gateway(server.port, app.clock, token=TOKEN) as link:

                def send(text: str) -> Awaitable[Any]:
                    return link.call("chat.send", {"sessionKey": "main", "message": text, "idempotencyKey": text})

                await send("/queue followup first")
                await gate.wait_reached()
                await asyncio.gather(*(send(f"m{n}") for n in range(8)))
                waiting = await app.store.list_waiting("agent:main:main")
                assert [decode_inbound(row.body).text for row in waiting] == [f"m{n}" for n in range(8)]
                gate.open()
        finally:
            await server.stop()


@pytest.mark.parametrize("seed", range(3))
async def test_many_sessions_at_once_are_all_answered_once_and_in_order(tmp_path: Path, seed: int) -> None:
    """Collected, steered, followed up, stopped: whatever becomes of them, each message ends once."""
    home, channel = tmp_path / "h", FakeChannel(owner=True)
    async with slow(home, ScriptedModel([say("ok")], repeat=True), channel, seed=seed) as app:
        chance = random.Random(seed)

        async def talk(to: str) -> list[str]:
            ids: list[str] = []
            for n in range(6):
                text = chance.choice(("hello", "/queue collect", "more", "/stop", "/status"))
                ids += await channel.receive(text, event=f"{to}-{n}", to=to)
                await asyncio.sleep(chance.random() * 0.05)
            return ids

        talks = await asyncio.gather(*(talk(f"chat-{n}") for n in range(4)))
        for ident in (ident for talk in talks for ident in talk):
            async with asyncio.timeout(60):
                assert (await app.wait(ident)).state == "done"
        async with asyncio.timeout(60):
            while await app.store.list_due_replies("fake", 2**60):
                await asyncio.sleep(0.02)
    assert not channel.duplicate_ids
    assert check_home(str(home)) == []


async def test_what_waited_before_a_restart_waits_once_after_it(tmp_path: Path) -> None:
    """The first of those that waited began while the others were still read; whoever began so stood in line for ever:
    its conversation counted as busy, and what came there was not read by its run."""
    home, gate, sent = tmp_path / "h", StreamGate(), []
    async with slow(home, ScriptedModel([hold_at(say("held"), gate, 0)], repeat=True)) as app:
        for session in ("one", "one", "one", "two", "three"):
            options = TurnOptions(queue="followup")
            sent.append(await app.submit(inbound("m", session=f"agent:main:{session}", options=options)))
    async with slow(home, ScriptedModel([say("ok")], repeat=True), seed=1) as app:
        for one in sent:
            assert (await app.wait(one.id)).outcome == "answered"
        for session in ("one", "two", "three"):
            async with asyncio.timeout(60):
                while app.dispatcher.running(f"agent:main:{session}"):
                    await asyncio.sleep(0.01)
            async with app.dispatcher.waiting.reserve(f"agent:main:{session}") as free:
                assert free, session
