"""kill -9 of a real gateway between a send and its receipt, on channels with and without client ids: what people see.

Signal and IRC take no ids and cannot be asked: two copies at most, and the trace says that nobody could know. The
webhook's receiver keeps the Idempotency-Key: one copy.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from channels.scene import Gateway, texts, until
from palinurus.testing.irc import FakeIrc
from palinurus.testing.server import ModelServer
from palinurus.testing.signal import PEOPLE, FakeSignal
from palinurus.testing.webhook import FakeWebhook

LONG = 30.0


def told(home: str) -> list[str]:
    with closing(sqlite3.connect(f"file:{home}/state.db?mode=ro", uri=True)) as conn:
        return [f"{what} {detail}" for what, detail in conn.execute("SELECT what, detail FROM steps ORDER BY item, n")]


def waiting(home: str) -> int:
    with closing(sqlite3.connect(f"file:{home}/state.db?mode=ro", uri=True)) as conn:
        query = "SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending')"
        return int(conn.execute(query).fetchone()[0])


async def at_once(people: Any, port: int) -> None:
    """The platform keeps what is said until we are there."""


async def entered(people: FakeIrc, port: int) -> None:
    """IRC keeps nothing: wait until we are in the room."""
    await until(lambda: any(one.command == "JOIN" for one in people.lines), LONG)
    people.lines.clear()


async def through(people: FakeWebhook, port: int) -> None:
    """Requests go to the gateway; one that is not up yet is tried again."""

    async def post(data: bytes, headers: dict[str, str]) -> int:
        url = f"http://127.0.0.1:{port}/channels/webhook/default"
        try:
            async with aiohttp.ClientSession() as http, http.post(url, data=data, headers=headers) as answer:
                return answer.status
        except aiohttp.ClientError:
            return 503

    people.post = post


CASES: dict[str, tuple[Callable[[], Any], str, Callable[[Any, int], Awaitable[None]], int]] = {
    "signal": (FakeSignal, PEOPLE["human"][0], at_once, 2),
    "irc": (FakeIrc, "human", entered, 2),
    "webhook": (FakeWebhook, "human", through, 1),
}


@pytest.mark.parametrize(
    "name", ["signal", *(pytest.param(name, marks=pytest.mark.torture) for name in ("webhook", "irc"))]
)
async def test_killed_between_send_and_receipt(tmp_path: Path, name: str) -> None:
    make, owner, reached, copies = CASES[name]
    async with make() as people, ModelServer() as model:
        gateway = Gateway(tmp_path, model.url, people, owner)
        with gateway.up("outbox.sent:1") as process:
            await reached(people, int(process.args[-1]))  # type: ignore[index,arg-type]
            await people.say("SAY Hello there.")
            await until(lambda: process.poll() is not None, LONG)
            assert process.returncode == 137 and texts(people) == ["Hello there."]
        with gateway.up() as process:
            await reached(people, int(process.args[-1]))  # type: ignore[index,arg-type]
            await until(lambda: waiting(gateway.home) == 0, LONG)
            await people.say("SAY And again.")
            await until(lambda: texts(people)[-1:] == ["And again."], LONG)
    assert texts(people) == ["Hello there."] * copies + ["And again."]
    assert len(model.requests) == 2
    assert copies == 1 or any("not known" in line or "uncertain" in line for line in told(gateway.home))


@pytest.mark.torture
@pytest.mark.parametrize("crash", ["accept.before:1", "accept.after:1", "settle.after:1", "outbox.claimed:1"])
async def test_a_webhook_message_is_answered_once_wherever_we_die(tmp_path: Path, crash: str) -> None:
    """Who was not told that it is on disk sends it again."""
    async with FakeWebhook() as people, ModelServer() as model:
        gateway = Gateway(tmp_path, model.url, people, "human")
        with gateway.up(crash) as process:
            await through(people, int(process.args[-1]))  # type: ignore[index,arg-type]
            await people.say("SAY Hello there.")
            await until(lambda: process.poll() is not None, LONG)
        with gateway.up() as process:
            await through(people, int(process.args[-1]))  # type: ignore[index,arg-type]
            await until(lambda: bool(texts(people)) and waiting(gateway.home) == 0, LONG)
            await people.say("SAY And again.")
            await until(lambda: texts(people)[-1:] == ["And again."], LONG)
    assert texts(people) == ["Hello there.", "And again."]
