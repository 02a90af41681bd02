"""One HTTP client for all providers: connect, first-byte and idle time-outs, stoppable at any read.

Knows sockets and clocks of the event loop; knows no protocol and no vendor. Everything that can go wrong here is
`TransportError`, with a kind and a message that names the host and nothing secret.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Mapping
from typing import TypeVar

import msgspec

from palinurus.core.types.model import FailureKind, StopSignal
from palinurus.providers.address import show_host
from palinurus.providers.transport.answer import BadAnswer
from palinurus.providers.transport.pool import BadUrl, ConnectionPool, ConnectTimeout, HttpConnection, NoAnswer

T = TypeVar("T")


class HttpTimeouts(msgspec.Struct, frozen=True):
    """Seconds; None: wait for ever."""

    connect: float | None = 15.0
    first: float | None = 120.0
    idle: float | None = 120.0
    quiet: float | None = 900.0  # bytes come, but nothing that means anything: comments, pings


class TransportError(Exception):
    """The transport failed."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class ReadWatchdog:
    """Ends a read that takes too long. One timer for the whole stream, moved only when it fires."""

    def __init__(self, stop: StopSignal) -> None:
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None  # set only while inside a read
        self._since = 0.0
        self._limit: float | None = None
        self._fired = False

    def limit(self, seconds: float | None) -> None:
        """From now on a read may take this long."""
        self._limit = seconds
        self.close()
        if seconds is not None:
            self._timer = self._loop.call_later(seconds, self._check)

    def close(self) -> None:
        """No more timers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        if self._limit is None:
            return
        left = self._since + self._limit - self._loop.time() if self._task is not None else self._limit
        if self._task is not None and left <= 0.0005:
            self._fired = True
            self._task.cancel()
            return
        self._timer = self._loop.call_later(max(left, 0.001), self._check)

    async def wait(self, thing: Awaitable[T]) -> T:
        """Await a read. Raises TimeoutError when it is late, Aborted when the run is stopped."""
        task = asyncio.current_task()
        self._since = self._loop.time()
        self._task = task
        try:
            return await self._stop.wait(thing)
        except asyncio.CancelledError:
            if self._fired and task is not None:
                self._fired = False
                if task.uncancel() == 0:
                    raise TimeoutError from None
            raise
        finally:
            self._task = None
            if self._fired and task is not None:  # stopped and late at once: one cancel was counted too many
                self._fired = False
                task.uncancel()


class HttpAnswer:
    """A response whose head has come. `read` until b"", then or earlier `close`."""

    def __init__(
        self, pool: ConnectionPool, line: HttpConnection, watch: ReadWatchdog, limits: HttpTimeouts, host: str
    ) -> None:
        self._pool = pool
        self._line: HttpConnection | None = line
        self._read = line.read
        self._watch = watch
        self._limits = limits
        self._host = host
        self._first = True
        self.status = line.answer.status
        self.headers = line.answer.headers  # names in lower case
        self.type = self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def read(self) -> bytes:
        """The next bytes; b"" at the end. Raises TransportError, Aborted."""
        try:
            data = await self._watch.wait(self._read())
        except TimeoutError:
            what = f"for {self._limits.idle:g} s" if not self._first else f"within {self._limits.first:g} s"
            raise TransportError("timeout", f"{self._host} sent nothing {what}") from None
        except (OSError, BadAnswer) as error:
            raise TransportError("cut", f"the connection to {self._host} broke: {_short(error)}") from None
        if self._first and data:
            self._first = False
            self._watch.limit(self._limits.idle)
        return data

    async def body(self, most: int) -> bytes:
        """All of it, at most `most` bytes. Raises TransportError, Aborted."""
        parts: list[bytes] = []
        size = 0
        while size < most and (data := await self.read()):
            parts.append(data)
            size += len(data)
        return b"".join(parts)[:most]

    def close(self) -> None:
        """Give the connection back if the answer was read to its end, else drop it."""
        self._watch.close()
        if self._line is not None:
            self._pool.give_back(self._line)
            self._line = None


class HttpClient:
    """Requests to models, over connections that are kept for a while."""

    def __init__(self) -> None:
        self._pool = ConnectionPool()

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], limits: HttpTimeouts, stop: StopSignal
    ) -> HttpAnswer:
        """Send; returns when the head of the answer is there. Raises TransportError, Aborted. Follows no redirect."""
        host = show_host(url)
        watch = ReadWatchdog(stop)
        # Connecting has its own limit, so that the first byte may take the whole of the other one.
        watch.limit(None if limits.first is None else limits.first + (limits.connect or 0.0))
        try:
            got = await watch.wait(self._pool.post(url, body, headers, limits.connect))
        except (BadUrl, BadAnswer, ConnectTimeout, OSError, ValueError) as error:
            watch.close()
            raise _refused(error, host, limits) from None
        except BaseException:
            watch.close()
            raise
        watch.limit(limits.first)
        return HttpAnswer(self._pool, got, watch, limits, host=host)

    async def close(self) -> None:
        """End all connections."""
        self._pool.close()


# What went wrong before the head of an answer came -> kind and words. First match wins.
_REFUSALS: tuple[tuple[type[Exception], FailureKind, str], ...] = (
    (ConnectTimeout, "timeout", "no connection to {host} within {limits.connect:g} s"),
    (TimeoutError, "timeout", "{host} did not answer within {limits.first:g} s"),
    (BadUrl, "config", "the base URL is not a URL: set models.providers.<id>.baseUrl"),
    (socket.gaierror, "network", "cannot find {host}: no such host name"),
    (ssl.SSLError, "network", "no trusted TLS connection to {host}: {why}"),
    (NoAnswer, "network", "{host} closed the connection without an answer"),
    (BadAnswer, "malformed", "{host} does not answer in HTTP"),
    (OSError, "network", "cannot reach {host}: {why}"),
    (ValueError, "config", "the request to {host} cannot be sent: a header or the key holds a forbidden character"),
    (Exception, "network", "the connection to {host} failed: {why}"),
)


def _refused(error: Exception, host: str, limits: HttpTimeouts) -> TransportError:
    kind, text = next((kind, text) for found, kind, text in _REFUSALS if isinstance(error, found))
    return TransportError(kind, text.format(host=host, limits=limits, why=_short(error)))


def _short(error: BaseException) -> str:
    """The system's word for it; library texts may hold URLs."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return str(error.verify_message)
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return type(error).__name__
