"""The screen's way to the agent: a running gateway if there is one, else the program in this process."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from palinurus.cli.args import load_settings
from palinurus.cli.reach.embedded import EmbeddedGateway
from palinurus.cli.reach.gateway import RunningGateway, find_connection_source
from palinurus.clock import SystemClock
from palinurus.errors import BadRequest, GatewayUnreachable, NotFound, StateLocked
from palinurus.gateway import token


async def test_the_program_in_this_process_with_a_door_for_us(demo: Path) -> None:
    environ = dict(os.environ)
    house = await find_connection_source(load_settings(environ), environ, SystemClock(), False)
    try:
        assert isinstance(house, EmbeddedGateway) and house.where == "in this process"
        place = token.find_location(str(demo))
        assert place is not None and place.chat and place.host == "127.0.0.1"  # others of this home are sent here
        wire = await house.open()
        found = await wire.call("chat.history", {"sessionKey": "main"})
        assert found["sessionKey"] == "agent:main:main"
        with pytest.raises(BadRequest, match="unknown method"):
            await wire.call("no.such")
        with pytest.raises(NotFound, match="more than one run begins") as refused:  # as without a gateway: kind and fix
            for name in ("01aaa", "01aab"):
                (demo / "changes" / "runs").mkdir(parents=True, exist_ok=True)
                (demo / "changes" / "runs" / f"{name}.jsonl").touch()
            await wire.call("changes.get", {"run": "01aa"})
        assert refused.value.fix == "`pal changes --list` names them"
        with pytest.raises(StateLocked):
            await find_connection_source(load_settings(environ), environ, SystemClock(), True)
        await wire.close()
        with pytest.raises(GatewayUnreachable):
            await wire.call("health")
    finally:
        await house.close()


async def test_a_gateway_that_runs_is_used_and_left_running(demo: Path) -> None:
    environ = dict(os.environ)
    own = await find_connection_source(load_settings(environ), environ, SystemClock(), False)
    assert isinstance(own, EmbeddedGateway)
    try:
        os.makedirs(demo, exist_ok=True)
        (demo / "gateway.token").write_text(own._secret)
        (demo / "gateway.token").chmod(0o600)
        place = token.GatewayLocation("127.0.0.1", own._gateway.port, os.getpid(), proof=own._gateway.proof_key)
        token.announce_location(str(demo), place)
        house = await find_connection_source(load_settings(environ), environ, SystemClock(), False)
        assert isinstance(house, RunningGateway) and str(own._gateway.port) in house.where
        wire = await house.open()
        assert (await wire.call("sessions.subscribe"))["subscribed"]
        await wire.close()
        await house.close()
        again = await own.open()
        await asyncio.wait_for(again.call("health"), 60)
        await again.close()
        with pytest.raises(StateLocked) as refused:
            await find_connection_source(load_settings(environ), environ, SystemClock(), True)
        assert "--local" in refused.value.fix
    finally:
        await own.close()
