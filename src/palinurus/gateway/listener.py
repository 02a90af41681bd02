"""Takes connections from the listening sockets, no faster than they can be looked after.

asyncio's own server accepts whatever comes and, out of descriptors, tries again a hundred times a second. This one lets
a crowd wait in the kernel's queue while those before it say who they are. Knows sockets; nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import ssl
from collections.abc import Callable

from palinurus.errors import GatewayUnreachable

log = logging.getLogger(__name__)

BACKLOG = 4096  # connections the kernel keeps for us; it may have a lower limit of its own
AT_ONCE = 64  # taken before the loop does something else
SOON = 0.02  # seconds until the next look whether there is room
UNKNOWN = 128  # connections that have not said who they are, while more wait in the kernel's queue
PATIENCE = 3.0  # seconds in which none of them gets on: they may be silent on purpose, and the oldest must go
LOOKS = 100  # … and looks at them, since a gateway that gets no processor has not listened to them either
EXHAUSTED = 1.0  # seconds until the next try when the system has no descriptor or no memory left
DESCRIPTORS = 8192  # that a gateway asks for, if it may have them

_NOTHING_LEFT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NOBODY = (BlockingIOError, InterruptedError, ConnectionAbortedError)

# A gateway on the one loopback (or all of one kind) listens on the other, too.
OTHER_LOOPBACK = {"127.0.0.1": ("::1",), "0.0.0.0": ("::1",), "::1": ("127.0.0.1",), "::": ("127.0.0.1",)}


class ConnectionListener:
    """Serves `sockets` (bound, not yet listening) until `close`. `count_unknown` says how many connections have not
    said who they are."""

    def __init__(
        self,
        sockets: list[socket.socket],
        protocol: Callable[[], asyncio.Protocol],
        count_unknown: Callable[[], int],
        context: ssl.SSLContext | None,
        handshake: float,  # seconds that TLS may take
    ) -> None:
        self.sockets = sockets
        self._protocol = protocol
        self._count = count_unknown
        self._context = context
        self._handshake = handshake if context is not None else None
        self._loop = asyncio.get_running_loop()
        self._room_seen = self._loop.time()
        self._looks = 0  # since then
        self._told = False
        self._timers: dict[socket.socket, asyncio.TimerHandle] = {}
        self._coming: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Listen. Raises OSError."""
        for one in self.sockets:
            one.setblocking(False)
            one.listen(BACKLOG)
            self._loop.add_reader(one, self._accept, one)

    def close(self) -> None:
        """Take no more; those that are open go on."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for one in self.sockets:
            self._loop.remove_reader(one)
            one.close()
        self.sockets = []

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(AT_ONCE):
            if self._crowded():
                self._pause(listening, SOON)
                return
            try:
                connection, _ = listening.accept()
            except _NOBODY:
                return
            except OSError as error:
                if error.errno not in _NOTHING_LEFT:
                    raise
                if not self._told:  # once: a log that grows a line a second helps nobody
                    log.error("no more connections can be taken: %s; trying again every second", error.strerror)
                self._told = True
                self._pause(listening, EXHAUSTED)
                return
            self._told = False
            task = self._loop.create_task(self._serve(connection))
            self._coming.add(task)
            task.add_done_callback(self._coming.discard)

    def _crowded(self) -> bool:
        """Wait while those before get on; if none does for a while, nobody waits until there is room again."""
        now = self._loop.time()
        if self._count() + len(self._coming) < UNKNOWN:
            self._room_seen, self._looks = now, 0
            return False
        self._looks += 1
        return now - self._room_seen < PATIENCE or self._looks < LOOKS

    def _pause(self, listening: socket.socket, seconds: float) -> None:
        self._loop.remove_reader(listening)
        self._timers[listening] = self._loop.call_later(seconds, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        del self._timers[listening]
        self._loop.add_reader(listening, self._accept, listening)

    async def _serve(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(
                self._protocol, connection, ssl=self._context, ssl_handshake_timeout=self._handshake
            )
        except OSError as error:  # it went, or its handshake failed: nobody to tell
            log.debug("a connection ended before it began: %s", error)
            connection.close()


async def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets for every address of `host`, bound as asyncio binds them. Raises OSError, OverflowError."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, host, port, start_serving=False)
    try:
        return [one.dup() for one in server.sockets]
    finally:
        server.close()


def raise_descriptor_limit() -> None:
    """Ask for enough descriptors for a crowd of clients; what the system refuses is done without."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def explain_bind_failure(bind: str, port: int, exc: Exception) -> GatewayUnreachable:
    """Why the address cannot be had, and what to do."""
    code = exc.errno if isinstance(exc, OSError) else None
    if code == errno.EADDRINUSE:
        error = GatewayUnreachable(
            f"port {port} on {bind} is taken by another program",
            fix=f"see who has it (`ss -ltnp sport = :{port}`) and end it, or use another (--port, gateway.port)",
        )
        error.exit_code = 75
        return error
    reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    return GatewayUnreachable(f"cannot listen on {bind}:{port}: {reason}", fix="choose another --bind or --port")
