"""What nodes tell each other while it happens: NOTIFY, on a connection of its own.

Never inside a change: a commit with a notification takes a lock of the whole server. A notification holds less than
8,000 bytes; what is larger lies in the table `aside` for a minute, and the notification names its row.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from palinurus.backoff import Backoff
from palinurus.store.postgres.link import AGAIN, FleetLink
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

CHANNEL = "palinurus_live"
FITS = 7_900  # bytes of a notification
MOST = 2_000  # messages that wait while the server is away: the rest is lost
PING = 5.0  # seconds of silence after which the connection has to show that it is alive
_NOTIFY = "SELECT pg_notify($1, $2)"
_ASIDE = "INSERT INTO aside (said) VALUES ($1) RETURNING n"
_CLEAN = "DELETE FROM aside WHERE at < clock_timestamp() - interval '1 minute'"


class FleetBus:
    """Made by `PostgresStore.open_bus`. Implements `store.news.NodeBus`."""

    def __init__(self, link: FleetLink, ping: float = PING) -> None:
        self._link = link
        self._ping = ping
        self._waiting: list[bytes] = []
        self._wake = asyncio.Event()
        self._came: asyncio.Queue[str] = asyncio.Queue()
        self._heard: Callable[[str, bytes], None] = lambda node, said: None
        self._again: Callable[[], None] = lambda: None
        self._tasks = TaskSet("the fleet's live line")
        self._closing = False

    def start(self) -> None:
        self._sending = self._tasks.start(self._work())
        self._tasks.start(self._listen())

    def send(self, said: bytes) -> None:
        if len(self._waiting) < MOST:
            self._waiting.append(said)
            self._wake.set()

    def listen(self, heard: Callable[[str, bytes], None], again: Callable[[], None]) -> None:
        self._heard, self._again = heard, again

    async def close(self) -> None:
        """Say what is still to be said, if the server is there."""
        self._closing = True
        self._wake.set()
        await asyncio.wait((self._sending,), timeout=1.0)
        await self._tasks.close()

    async def _work(self) -> None:
        backoff = Backoff(AGAIN, 2.0)
        while not self._closing:
            conn = None
            try:
                async with asyncio.timeout(self._ping):
                    conn = await self._link.connect(synchronous_commit="off")
                    await conn.add_listener(CHANNEL, self._notice)
                self._again()
                backoff.reset()
                while not self._closing:
                    await self._say(conn)
            except self._link.failed as error:  # TimeoutError is an OSError
                log.warning("the fleet's live line broke (%s); trying again", error or type(error).__name__)
                await self._link.clock.sleep(backoff.next_delay())
            finally:
                if conn is not None:
                    conn.terminate()

    async def _say(self, conn: Any) -> None:
        """What waits; after a silence nothing, which shows whether anybody is there."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._ping):
                await self._wake.wait()
        self._wake.clear()
        said, self._waiting = self._waiting, []
        async with asyncio.timeout(self._ping):
            for some in _gather(said):
                place = await conn.fetchval(_ASIDE, some[0].decode()) if len(some[0]) > FITS else None
                told = [str(place).encode()] if place is not None else some
                payload = b"[%b]" % b",".join([msgspec.json.encode(self._link.node), *told])
                await conn.execute(_NOTIFY, CHANNEL, payload.decode())
            if not said:
                await conn.execute(_CLEAN)

    def _notice(self, conn: object, pid: int, channel: str, payload: str) -> None:
        self._came.put_nowait(payload)

    async def _listen(self) -> None:
        """In the order in which it was said."""
        while True:
            node, *said = msgspec.json.decode(await self._came.get(), type=list[msgspec.Raw])
            name = msgspec.json.decode(node, type=str)
            for one in said if name != self._link.node else ():
                data = bytes(one)
                whole = await self._fetch(int(data)) if data.isdigit() else data
                if whole is not None:
                    self._hand(name, whole)

    async def _fetch(self, place: int) -> bytes | None:
        with contextlib.suppress(*self._link.failed):
            found = await self._link.reads.fetchval("SELECT said FROM aside WHERE n = $1", place)
            return None if found is None else str(found).encode()
        return None

    def _hand(self, node: str, said: bytes) -> None:
        try:
            self._heard(node, said)
        except Exception:  # border: what one message does must not end the line
            log.exception("what another node said could not be heard")


def _gather(said: list[bytes]) -> Iterator[list[bytes]]:
    """As many at once as fit; one that does not fit is alone."""
    some: list[bytes] = []
    size = 0
    for one in said:
        if some and size + len(one) + 1 > FITS:
            yield some
            some, size = [], 0
        some.append(one)
        size += len(one) + 1
    if some:
        yield some
