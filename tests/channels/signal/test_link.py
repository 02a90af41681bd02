from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from palinurus.channels.signal.link import (
    SignalLink,
    SignalRpcError,
    SignalUnknownAccount,
    SignalUnreachable,
    make_link,
)

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def daemon(talk: Talk, path: Path | None = None) -> AsyncIterator[str]:
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await talk(reader, writer)
        writer.close()

    if path is not None:
        server = await asyncio.start_unix_server(served, path)
        where = f"unix:{path}"
    else:
        server = await asyncio.start_server(served, "127.0.0.1", 0)
        where = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield where
    server.close()


async def all_of(made: SignalLink, account: str = "") -> tuple[list[dict[str, Any]], str]:
    """What came, and why it ended."""
    found: list[dict[str, Any]] = []
    try:
        async for event in made.events(account):
            found.append(event)
    except SignalUnreachable as exc:
        return found, str(exc)
    finally:
        await made.close()
    return found, ""


STREAM = (
    b':\n\nevent:receive\ndata:{"a": 1}\n\nevent:receive\r\ndata: {"b":\r\ndata: 2}\r\n\r\ndata:broken\n\ndata:[1]\n\n'
)


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_events_however_they_are_cut(size: int) -> None:
    asked: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for at in range(0, len(STREAM), size):
            writer.write(STREAM[at : at + size])
            await writer.drain()

    async with daemon(talk) as where:
        found, why = await all_of(make_link(f"http://{where}"), "+1555")
    assert found == [{}, {"a": 1}, {"b": 2}] and "closed" in why
    assert asked[0].startswith(b"GET /api/v1/events?account=%2B1555 ")


async def test_answers_that_are_none_and_calls_that_may_have_arrived() -> None:
    answers = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", b"", b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n",
    ]  # fmt: skip

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers.pop(0))

    async with daemon(talk) as where:
        made = make_link(f"http://{where}")
        for sent in (True, True, False, True):
            with pytest.raises(SignalUnreachable) as caught:
                await made.call("send", {})
            assert caught.value.sent is sent
        with pytest.raises(SignalUnknownAccount):
            await anext(made.events("+1"))
        await made.close()
    made = make_link(f"http://{where}")
    with pytest.raises(SignalUnreachable, match="not reachable") as caught:
        await made.call("send", {})
    assert not caught.value.sent
    await made.close()


async def test_a_unix_socket_carries_calls_and_messages(tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"jsonrpc":"2.0","method":"receive","params":{"n":1}}\nnonsense\n')
        for answer in (b'"result":7', b'"error":{"code":-5,"message":"slow"}'):
            asked = await reader.readline()
            ident = asked.split(b'"id":')[1].split(b",")[0]
            writer.write(b'{"jsonrpc":"2.0","id":%s,%s}\n' % (ident, answer))
        await reader.readline()

    async with daemon(talk, tmp_path / "s") as where:
        made = make_link(where)
        with pytest.raises(SignalUnreachable) as caught:
            await made.call("version", {})
        assert not caught.value.sent
        reading = asyncio.ensure_future(all_of(made))
        while True:
            await asyncio.sleep(0.01)
            try:
                assert await made.call("version", {}) == 7
                break
            except SignalUnreachable:
                continue
        with pytest.raises(SignalRpcError, match="slow"):
            await made.call("version", {})
        with pytest.raises(SignalUnreachable) as caught:
            await made.call("version", {})
        assert caught.value.sent
        found, why = await asyncio.wait_for(reading, 60)
    assert found == [{}, {"n": 1}] and "closed" in why
    _, why = await all_of(make_link(f"unix:{tmp_path}/nobody"))
    assert "not reachable" in why
