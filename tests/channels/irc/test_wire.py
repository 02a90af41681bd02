from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from palinurus.channels.irc.wire import BURST, IrcAddress, IrcConnection, IrcConnectionLost, connect_irc
from palinurus.clock import SystemClock
from palinurus.testing.clock import FakeClock


class Writer:
    """The half of a connection that is written to."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed = False

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    async def drain(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def wire(clock: Any, pace: float = 2.0) -> tuple[IrcConnection, asyncio.StreamReader, Writer]:
    reader, writer = asyncio.StreamReader(limit=1024), Writer()
    return IrcConnection(reader, cast("asyncio.StreamWriter", writer), clock, pace), reader, writer


async def test_a_few_lines_at_once_then_one_at_a_time() -> None:
    clock = FakeClock()
    made, _, writer = wire(clock)
    tasks = [asyncio.ensure_future(made.send_paced(b"%d" % n)) for n in range(BURST + 2)]
    await clock.advance(0)
    assert len(writer.sent) == BURST
    await clock.advance(1.9)
    assert len(writer.sent) == BURST
    await clock.advance(0.2)
    assert len(writer.sent) == BURST + 1
    await clock.advance(2)
    assert writer.sent == [b"%d" % n for n in range(BURST + 2)]
    await asyncio.gather(*tasks)
    writer.closed = True
    with pytest.raises(IrcConnectionLost):
        await made.send_paced(b"x")


async def test_a_silent_server_is_asked_and_then_given_up() -> None:
    made, reader, writer = wire(SystemClock())
    reader.feed_data(b":s 001 pal :hi\r\n\r\n")
    lines = made.lines(silence=0.02)
    assert (await anext(lines)).command == "001"
    with pytest.raises(IrcConnectionLost, match="said nothing"):
        await anext(lines)
    assert writer.sent == [b"PING :alive\r\n"]


@pytest.mark.parametrize("data", [b"", b"x" * 5000])
async def test_an_end_and_a_line_without_one(data: bytes) -> None:
    made, reader, _ = wire(SystemClock())
    reader.feed_data(data)
    reader.feed_eof()
    with pytest.raises(IrcConnectionLost):
        await asyncio.wait_for(anext(made.lines()), 60)


async def test_nobody_there() -> None:
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(IrcConnectionLost, match="not reachable"):
        await connect_irc(IrcAddress("127.0.0.1", port, tls=False), SystemClock(), 0)
