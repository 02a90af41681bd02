"""Crowds wait their turn, the silent give way after a while; a system without descriptors is asked once a second."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from gateway.host import TOKEN
from palinurus.gateway.listener import DESCRIPTORS, ConnectionListener, bind_sockets, raise_descriptor_limit
from palinurus.gateway.server import GatewayServer
from palinurus.testing.client import connect_to_gateway
from palinurus.testing.clock import FakeClock


class Greeter(asyncio.Protocol):
    """Says hello to everyone."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(b"hello\n")


@asynccontextmanager
async def listening(unknown: Callable[[], int] = lambda: 0) -> AsyncIterator[int]:
    sockets = await bind_sockets("127.0.0.1", 0)
    listener = ConnectionListener(sockets, Greeter, unknown, None, handshake=5.0)
    listener.start()
    try:
        yield sockets[0].getsockname()[1]
    finally:
        listener.close()


async def greet(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await asyncio.wait_for(reader.readline(), 60)
    finally:
        writer.close()


async def test_connections_wait_until_there_is_room() -> None:
    unknown = 100_000
    looks = 0

    def count() -> int:
        nonlocal looks
        looks += 1
        return unknown if looks % 10 else 127  # one of them gets on

    async with listening(count) as port:
        assert await greet(port) == b"hello\n"
        assert looks >= 10


async def test_a_gateway_that_was_held_up_itself_does_not_take_that_for_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, looks = asyncio.get_running_loop(), 0
    time = loop.time

    def count() -> int:
        nonlocal looks
        looks += 1
        if looks == 2:
            monkeypatch.setattr(loop, "time", lambda: time() + 10)
        return 1000 if looks < 20 else 0

    async with listening(count) as port:
        assert await greet(port) == b"hello\n" and looks >= 20


async def test_who_stays_silent_does_not_keep_others_out() -> None:
    async with listening(lambda: 1000) as port:
        assert [await greet(port) for _ in range(3)] == [b"hello\n"] * 3


async def test_a_crowd_that_comes_at_once_is_let_in_to_the_last(server: GatewayServer, clock: FakeClock) -> None:
    """More than may be on probation at a time: nobody who speaks is sent away for those behind."""
    together = asyncio.Event()

    async def come() -> bool:
        async with connect_to_gateway(server.port, clock, token=TOKEN) as link:
            await together.wait()
            return bool((await link.call("health"))["ok"])

    crowd = [asyncio.ensure_future(come()) for _ in range(700)]
    async with asyncio.timeout(120):
        while len(server.clients.clients()) < 700 and not any(task.done() for task in crowd):
            await asyncio.sleep(0.05)
    together.set()
    assert await asyncio.gather(*crowd) == [True] * 700


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """Those that are open, and a handful."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = {int(name) for name in os.listdir("/proc/self/fd")}
    free = [number for number in range(len(used) + 13) if number not in used]  # whoever started us may leave gaps
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[12], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_without_descriptors_it_says_so_once_and_goes_on_when_there_are_some(
    few_descriptors: None, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening() as port:
        held: list[socket.socket] = []
        with caplog.at_level(logging.ERROR):
            async with asyncio.timeout(60):
                while not caplog.records:  # what an earlier test closes meanwhile is there to be used up, too
                    with contextlib.suppress(OSError):  # none left here: then there is none left there
                        one = socket.socket()
                        one.setblocking(False)
                        held.append(one)
                        one.connect_ex(("127.0.0.1", port))
                    await asyncio.sleep(0.001)
            await asyncio.sleep(0.3)
        assert [record.getMessage() for record in caplog.records] == [
            "no more connections can be taken: Too many open files; trying again every second"
        ]
        for one in held:
            one.close()
        assert await greet(port) == b"hello\n"


class Exhausted(socket.socket):
    """Somebody wants in, and there is no descriptor for them."""

    asked = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.asked += 1
        raise OSError(errno.EMFILE, "Too many open files")


async def test_without_descriptors_it_does_not_try_all_the_time() -> None:
    with Exhausted() as one, socket.socket() as client:
        one.bind(("127.0.0.1", 0))
        listener = ConnectionListener([one], Greeter, lambda: 0, None, handshake=5.0)
        listener.start()
        client.setblocking(False)
        client.connect_ex(one.getsockname())
        async with asyncio.timeout(60):
            while not one.asked:
                await asyncio.sleep(0.001)
        for _ in range(50):
            await asyncio.sleep(0)
        assert one.asked == 1
        listener.close()


def test_a_gateway_asks_for_enough_descriptors() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = min(before[1], DESCRIPTORS) if before[1] != resource.RLIM_INFINITY else DESCRIPTORS
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 1024), before[1]))
        raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= min(enough, 1024)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == max(enough, min(before[0], 1024))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
