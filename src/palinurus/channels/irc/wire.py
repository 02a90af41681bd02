"""The connection to a server: TLS, lines in and out, a pace that servers bear, and a sign of life. Knows no command."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from typing import NamedTuple

from palinurus.channels.irc.line import IrcLine, format_line, parse_line
from palinurus.clock import Clock

CONNECT = 20.0
SILENCE = 120.0  # seconds without a line until we ask, and as many again until we give up
LINE = 16 * 1024  # bytes; tags may be long
BURST = 4  # lines that go out at once


class IrcConnectionLost(Exception):
    """The connection is gone, or was never there. The text is for people."""


class IrcAddress(NamedTuple):
    """`ca`: a file with the certificates that are trusted instead of the system's."""

    host: str
    port: int
    tls: bool = True
    ca: str = ""


class IrcConnection:
    """One connection. `lines` reads it until it breaks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, clock: Clock, pace: float) -> None:
        self._reader = reader
        self._writer = writer
        self._clock = clock
        self._pace = pace
        self._free = 0.0  # when the line after the burst may go
        self._turn = asyncio.Lock()

    async def lines(self, silence: float = SILENCE) -> AsyncGenerator[IrcLine, None]:
        """What the server says. Raises Broken at the end."""
        asked = False
        while True:
            try:
                async with asyncio.timeout(silence):
                    data = await self._reader.readline()
            except TimeoutError:
                if asked:
                    raise IrcConnectionLost(f"the server has said nothing for {2 * silence:g} seconds") from None
                asked = True
                self.send_now(format_line("PING", "alive"))
                continue
            except (OSError, ValueError) as exc:
                raise IrcConnectionLost(f"the connection broke: {type(exc).__name__}") from None
            if not data:
                raise IrcConnectionLost("the server closed the connection")
            asked = False
            if (got := parse_line(data)) is not None:
                yield got

    def send_now(self, *lines: bytes) -> None:
        """Send at once: answers that the server waits for."""
        if not self._writer.is_closing():
            self._writer.write(b"".join(lines))

    async def send_paced(self, data: bytes) -> None:
        """Send when it is our turn: a few lines at once, then one every `pace` seconds. Raises Broken."""
        async with self._turn:
            now = self._clock.monotonic()
            self._free = max(self._free, now - self._pace * BURST) + self._pace
            if self._free > now and not self._writer.is_closing():
                await self._clock.sleep(self._free - now)
            try:
                if self._writer.is_closing():
                    raise IrcConnectionLost("the connection is closed")
                self._writer.write(data)
                await self._writer.drain()
            except OSError as exc:
                raise IrcConnectionLost(f"the connection broke: {type(exc).__name__}") from None

    def close(self) -> None:
        self._writer.close()


async def connect_irc(where: IrcAddress, clock: Clock, pace: float) -> IrcConnection:
    """Raises Broken."""
    context = ssl.create_default_context(cafile=where.ca or None) if where.tls else None
    try:
        async with asyncio.timeout(CONNECT):
            reader, writer = await asyncio.open_connection(where.host, where.port, ssl=context, limit=LINE)
    except ssl.SSLCertVerificationError as exc:
        raise IrcConnectionLost(f"the certificate of {where.host} is not valid: {exc.verify_message}") from None
    except ssl.SSLError:
        raise IrcConnectionLost(
            f"{where.host}:{where.port} does not speak TLS (set channels.irc.tls if that is meant)"
        ) from None
    except (OSError, TimeoutError) as exc:
        words = getattr(exc, "strerror", None) or "no answer"
        raise IrcConnectionLost(f"{where.host}:{where.port} is not reachable: {words}") from None
    return IrcConnection(reader, writer, clock, pace)
