"""Between one node and its database: a TCP proxy that drops, delays, swallows, or keeps notifications back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

NOTIFICATION = b"A"  # the type of the message in which the server tells of a NOTIFY
WRITE = b"apply_changes"


class Proxy:
    """`delay` in seconds, each way; `swallow`: connections stay open and nothing gets through; `refuse`: none is taken;
    `deaf`: no notification gets through; `on_write` is called once with the next change that the node sends."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._pairs: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.heal()

    def heal(self) -> None:
        """Everything gets through again. What was swallowed is gone: those connections are closed."""
        if getattr(self, "swallow", False):
            self.cut()
        self.delay, self.swallow, self.refuse, self.deaf = 0.0, False, False, False
        self.on_write: Callable[[], None] | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Close what is open."""
        for writer in tuple(self._pairs):
            writer.transport.abort()

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuse:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._pairs |= {writer, back}
        ways = [
            asyncio.ensure_future(self._pass(reader, back, self._see_write)),
            asyncio.ensure_future(self._pass(there, writer, DeafFilter(self).feed)),
        ]
        self._tasks |= set(ways)
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
                self._tasks.discard(way)
            for end in (writer, back):
                self._pairs.discard(end)
                end.transport.abort()

    def _see_write(self, data: bytes) -> bytes:
        if self.on_write is not None and len(data) > 400:  # a batch: everything else is short
            told, self.on_write = self.on_write, None
            told()
        return data

    async def _pass(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, look: Callable[[bytes], bytes]
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(1 << 16):
                if self.delay:
                    await asyncio.sleep(self.delay)
                data = look(data)
                if data and not self.swallow:
                    sink.write(data)
                    await sink.drain()


class DeafFilter:
    """Takes notifications out of what a server sends, which is messages of a type, a length and a body."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        out, data = [], self._rest + data
        while len(data) >= 5 and len(data) >= (size := 1 + int.from_bytes(data[1:5], "big")):
            if not (self._proxy.deaf and data[:1] == NOTIFICATION):
                out.append(data[:size])
            data = data[size:]
        self._rest = data
        return b"".join(out)
