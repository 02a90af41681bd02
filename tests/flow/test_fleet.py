"""Real `pal gateway` processes on one PostgreSQL: one is killed, one freezes beyond its lease; nothing is lost, nothing
is said twice, and the frozen one ends itself when it wakes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

from channels.scene import until
from cli.place import SRC
from palinurus.cli.gateway.serve import OUT_OF_FLEET
from palinurus.clock import SystemClock
from palinurus.testing.client import connect_to_gateway
from palinurus.testing.home import TOKEN, check_snapshot, make_home
from palinurus.testing.model import say
from palinurus.testing.server import ModelServer, ModelServerRequest, ScriptedResponse
from ports import reserve_port
from store.postgres.server import empty_tables, read_fleet

LEASE = 4
SESSIONS, EACH = 10, 3


class Member:
    """One gateway with a home of its own."""

    def __init__(self, root: Path, name: str, fleet: str, model: str) -> None:
        root.mkdir()
        self.home = make_home(
            root, {"store": {"node": name, "leaseSeconds": LEASE, "sharedWorkspaces": True}}, url=model
        )
        self.port = reserve_port()
        self.log = Path(self.home, "out")
        environ = {**os.environ, "PALINURUS_HOME": self.home, "PALINURUS_STORE": fleet, "PYTHONPATH": SRC}
        order = [sys.executable, "-m", "palinurus", "gateway", "--port", str(self.port)]
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(order, env=environ, stdout=out, stderr=out)

    async def ready(self) -> None:
        await until(lambda: Path(self.home, "gateway.json").exists() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def slowly(asked: ModelServerRequest) -> ScriptedResponse:
    """Slow enough to be killed in."""
    return ScriptedResponse(say(f"answer to {asked.conversation.text}"), delay=0.05)


async def test_a_killed_and_a_frozen_gateway_lose_and_double_nothing(server: str, tmp_path: Path) -> None:
    await empty_tables(server)
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(ModelServer([], default=slowly))
        ends = stack.enter_context(ExitStack())
        fleet = []
        for name in ("a", "b", "c"):
            fleet.append(Member(tmp_path / name, name, server, model.url))
            ends.callback(fleet[-1].end)
            await fleet[-1].ready()
        links = [
            await stack.enter_async_context(connect_to_gateway(one.port, SystemClock(), token=TOKEN)) for one in fleet
        ]
        for n in range(SESSIONS * EACH):
            params = {"sessionKey": f"s{n % SESSIONS}", "message": f"m{n}", "idempotencyKey": f"k{n}"}
            async with asyncio.timeout(60):
                told = await links[n % 3].call("chat.send", params)
            assert told["status"] == "started"
        fleet[0].process.send_signal(signal.SIGKILL)
        fleet[1].process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(LEASE + 2)
        fleet[1].process.send_signal(signal.SIGCONT)

        async def finished() -> bool:
            return all(row["state"] in ("done", "absorbed") for row in (await read_fleet(server)).inbox)

        async with asyncio.timeout(120):
            while not await finished():
                await asyncio.sleep(0.2)
            while fleet[1].process.poll() is None:
                await asyncio.sleep(0.2)
        assert fleet[1].process.returncode == OUT_OF_FLEET, fleet[1].log.read_text()
        fleet[2].process.send_signal(signal.SIGTERM)
        await until(lambda: fleet[2].process.poll() is not None)
    story = await read_fleet(server)
    assert check_snapshot(story) == []
    assert Counter(row["outcome"] for row in story.inbox if row["state"] == "done").keys() == {"answered"}
    assert len(story.inbox) == SESSIONS * EACH
    said = _texts(story.files, "user")
    assert Counter(said) == Counter(f"m{n}" for n in range(SESSIONS * EACH))


def _texts(files: dict[str, tuple[bytes, ...]], role: str) -> list[str]:
    found: list[str] = []
    for lines in files.values():
        for line in filter(None, lines):
            entry: dict[str, Any] = json.loads(line)
            message = entry.get("message") or {}
            if message.get("role") == role:
                text = message["content"] if isinstance(message["content"], str) else message["content"][0]["text"]
                found += [word for word in text.split() if word[0] == "m" and word[1:].isdigit()]
    return found
