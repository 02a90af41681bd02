"""Three real gateways on one PostgreSQL are restarted one after the other while messages come: none is lost, none is
answered twice, and whoever asks again elsewhere is served."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from channels.scene import until
from cli.place import SRC
from nursery import Program, run_program
from palinurus.cli.gateway.serve import OUT_OF_FLEET
from palinurus.clock import SystemClock
from palinurus.errors import PalinurusError
from palinurus.gateway.rpc import MethodError
from palinurus.store.sqlite import open_sqlite_store
from palinurus.testing.client import connect_to_gateway
from palinurus.testing.home import TOKEN, check_snapshot, make_home
from palinurus.testing.model import say
from palinurus.testing.server import ModelServer, ModelServerRequest, ScriptedResponse
from ports import reserve_port
from store.postgres.server import empty_tables, read_fleet

SESSIONS, MESSAGES = 6, 24
NAMES = ("a", "b", "c")
LEASE = 40  # seconds: nobody waits for its end here, and a busy machine may keep a node from renewing one for long
TROUBLE = (PalinurusError, MethodError, OSError, EOFError, RuntimeError, TimeoutError)


class Node:
    """A gateway that can be started again on its home."""

    def __init__(self, root: Path, name: str, fleet: str, model: str) -> None:
        root.mkdir()
        told = {"store": {"node": name, "leaseSeconds": LEASE, "sharedWorkspaces": True}}
        self.home, self.name, self.port = make_home(root, told, url=model), name, reserve_port()
        self.environ = {**os.environ, "PALINURUS_HOME": self.home, "PALINURUS_STORE": fleet, "PYTHONPATH": SRC}

    async def start(self) -> None:
        with Path(self.home, "out").open("ab") as out:
            self.process = Program("gateway", "--port", str(self.port), env=self.environ, stdout=out, stderr=out)
        await until(lambda: Path(self.home, "gateway.json").exists() or self.process.poll() is not None)
        assert self.process.poll() is None, Path(self.home, "out").read_text()

    async def run(self, *line: str) -> str:
        """`pal …` beside it; what it prints."""
        done = await asyncio.to_thread(run_program, *line, timeout=120, env=self.environ)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


async def send(fleet: list[Node], n: int) -> None:
    """As a client behind a balancer does: whoever does not take it is left for the next one; the key is the same."""
    params = {"sessionKey": f"s{n % SESSIONS}", "message": f"m{n}", "idempotencyKey": f"k{n}"}
    for at in range(n, n + 60):
        try:
            async with asyncio.timeout(60):
                async with connect_to_gateway(fleet[at % 3].port, SystemClock(), token=TOKEN) as link:
                    told = await link.call("chat.send", params)
                    assert told["status"] in ("started", "in_flight", "ok"), told
                    return
        except TROUBLE:
            await asyncio.sleep(0.1)
    raise AssertionError(f"nobody took m{n}")


def slowly(asked: ModelServerRequest) -> ScriptedResponse:
    return ScriptedResponse(say(f"answer to {asked.conversation.text}"), delay=0.1)


async def test_a_rolling_restart_loses_and_doubles_nothing(server: str, tmp_path: Path) -> None:
    await empty_tables(server)
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(ModelServer([], default=slowly))
        fleet = [Node(tmp_path / name, name, server, model.url) for name in NAMES]
        for node in fleet:
            await node.start()
            stack.callback(node.end)
        coming = asyncio.ensure_future(_send_all(fleet))
        for node, other in zip(fleet, (*fleet[1:], fleet[0]), strict=True):
            await asyncio.sleep(0.5)
            if node is not fleet[1]:
                assert f"{node.name} is gone" in await other.run("fleet", "drain", node.name)
            else:
                node.process.send_signal(signal.SIGTERM)
            await until(lambda node=node: node.process.poll() is not None)  # type: ignore[misc]
            assert node.process.returncode == 0, Path(node.home, "out").read_text()
            await node.start()
        await coming
        async with asyncio.timeout(120):
            while not all(row["state"] in ("done", "absorbed") for row in (await read_fleet(server)).inbox):
                await asyncio.sleep(0.2)
        status = json.loads(await fleet[0].run("fleet", "status", "--json"))
        shown = await fleet[1].run("fleet", "status")
    story = await read_fleet(server)
    assert check_snapshot(story) == []
    assert {row["outcome"] for row in story.inbox if row["state"] == "done"} == {"answered"}
    assert len(story.inbox) == MESSAGES
    assert Counter(_said(story.files)) == Counter(f"m{n}" for n in range(MESSAGES))
    assert [node["id"] for node in status["nodes"]] == list(NAMES) and not status["waiting"]
    assert len({node["config"] for node in status["nodes"]}) == 1
    assert all(node["release"] and node["left"] > 0 and node["serves"] is None for node in status["nodes"])
    assert {"clock", "taking up"} & {held for node in status["nodes"] for held in node["holds"]}
    assert "serves all agents" in shown and "0 waiting" in shown


async def test_the_page_about_fleets_is_true(server: str, tmp_path: Path) -> None:
    """Its commands, one after the other."""
    await empty_tables(server)
    (tmp_path / "old").mkdir()
    old = make_home(tmp_path / "old")
    await (await open_sqlite_store(old, SystemClock())).close()
    text = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text()
    lines = [shlex.split(line, comments=True) for line in re.findall(r"^\$ pal (.*)$", text, re.MULTILINE)]
    meant = {"postgresql://pal@db.example/palinurus": server, "~/.palinurus": old, "NODE": "a"}
    ran = []
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(ModelServer([], default=slowly))
        node = Node(tmp_path / "a", "a", server, model.url)
        for line in lines:
            command = [meant.get(word, word) for word in line]
            if command[0] == "extras":
                continue
            if command[0] == "gateway" or command[1:2] == ["evict"]:
                await node.start()
                stack.callback(node.end)
            if command[0] != "gateway":
                await node.run(*command)
            if command[1:2] == ["drain"]:
                await until(lambda: node.process.poll() == 0)
            ran.append(" ".join(line[:2]))
        await until(lambda: node.process.poll() == OUT_OF_FLEET)  # what was evicted ends itself
    assert {"fleet init", "fleet status", "fleet drain", "fleet evict", "store copy", "doctor"} <= set(ran), ran


async def _send_all(fleet: list[Node]) -> None:
    for n in range(MESSAGES):
        await send(fleet, n)
        await asyncio.sleep(0.1)


def _said(files: dict[str, tuple[bytes, ...]]) -> list[str]:
    """The words of users, from all transcripts."""
    found: list[str] = []
    for line in (line for lines in files.values() for line in lines if line):
        message: dict[str, Any] = json.loads(line).get("message") or {}
        if message.get("role") == "user":
            text = message["content"] if isinstance(message["content"], str) else message["content"][0]["text"]
            found += [word for word in text.split() if word[0] == "m" and word[1:].isdigit()]
    return found
