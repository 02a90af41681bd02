"""A chat without a gateway serves the others of its home; when it leaves, another one takes over."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from palinurus.cli.args import load_settings
from palinurus.cli.gateway.running import find_running_gateway
from palinurus.cli.reach.client import CliMessage, CliOutcome, HttpAgentClient, connect_agent
from palinurus.cli.reach.embedded import EmbeddedGateway, start_embedded_gateway
from palinurus.cli.reach.gateway import SharedChat, find_connection_source, reach_program
from palinurus.cli.reach.local import LocalAgentClient
from palinurus.clock import SystemClock
from palinurus.errors import StateLocked
from palinurus.gateway.token import find_location

CLOCK = SystemClock()


async def test_others_reach_the_first_chat_and_go_on_without_it(demo: Path) -> None:
    loaded = load_settings(os.environ)
    first = await find_connection_source(loaded, os.environ, CLOCK, False)
    assert isinstance(first, EmbeddedGateway)
    wire = await first.open()
    await wire.call("sessions.create", {"key": "one", "message": "hello"})

    second = await find_connection_source(loaded, os.environ, CLOCK, False)
    assert isinstance(second, SharedChat)
    other = await second.open()
    assert [row["key"] for row in (await other.call("sessions.list"))["sessions"]] == ["agent:main:one"]

    client = await connect_agent(loaded, os.environ, CLOCK)  # `pal agent`
    assert isinstance(client, HttpAgentClient)
    ends = [one async for one in client.send(CliMessage("list files", "agent:main:x", "main"))]
    assert isinstance(ends[-1], CliOutcome) and "AGENTS.md" in ends[-1].text
    async with reach_program(loaded, os.environ, CLOCK) as program:  # `pal cron list`, `pal sessions delete`
        assert await program.call("cron.list") is not None
        assert (await program.call("sessions.delete", {"key": "agent:main:x"}))["deleted"]
    with pytest.raises(StateLocked):
        await start_embedded_gateway(loaded, os.environ, CLOCK)  # never two writers

    await wire.close()
    await first.close()
    async with asyncio.timeout(60):
        await other.wait_closed()  # they are told
    third = await second.open()  # and take over
    assert second.where == "in this process"
    assert len((await third.call("chat.history", {"sessionKey": "one"}))["messages"]) >= 1
    again = await find_connection_source(loaded, os.environ, CLOCK, False)
    assert isinstance(again, SharedChat)  # a fourth finds the new one
    await third.close()
    await second.close()
    assert find_location(str(demo)) is None


async def test_a_one_shot_command_that_lasts_serves_and_leaves_its_guests_their_turns(demo: Path) -> None:
    loaded = load_settings(os.environ)
    first = await connect_agent(loaded, os.environ, CLOCK)  # `pal agent`, `pal -p`, `pal chat --plain`
    assert isinstance(first, LocalAgentClient)
    assert find_location(str(demo)) is None  # most are over before they have served anybody
    async with asyncio.timeout(60):
        while find_location(str(demo)) is None:
            await asyncio.sleep(0.05)
    second = await connect_agent(loaded, os.environ, CLOCK)
    assert isinstance(second, HttpAgentClient)
    async with reach_program(loaded, os.environ, CLOCK) as program:
        assert await program.call("cron.list") is not None
    talk = second.send(CliMessage("run sleep 3; echo done", "agent:main:x", "main"))
    heard = [await anext(talk)]  # it runs, in the first one's process
    await first.close()  # which has its answer, and leaves
    heard += [one async for one in talk]
    ends = [one for one in heard if isinstance(one, CliOutcome)]
    assert len(ends) == 1 and ends[0].outcome == "answered"
    await second.close()
    assert find_location(str(demo)) is None


async def test_a_chat_is_no_gateway_to_be_stopped(demo: Path) -> None:
    loaded = load_settings(os.environ)
    chat = await start_embedded_gateway(loaded, os.environ, CLOCK)
    try:
        place = find_location(str(demo))
        assert place is not None and place.chat and place.pid == os.getpid()
        assert find_running_gateway(str(demo)) is None  # `pal gateway stop` would end it
    finally:
        await chat.close()
