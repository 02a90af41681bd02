"""The connections of one node to its fleet: changes go out in batches, one statement each; the lease is renewed; news
of other nodes come in.

Nothing is open between two statements, so a node that freezes holds up nobody. A batch has a number: after a lost
connection it is sent again, and the server answers what it gave the first time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from palinurus import late
from palinurus.backoff import Backoff
from palinurus.clock import Clock
from palinurus.errors import BadRequest, StateBroken, StateError, StateUnwritable
from palinurus.store import port
from palinurus.store.fleet import FleetFigures, MemberFacts
from palinurus.store.news import NewsListener, StoreNews, hand_news
from palinurus.store.postgres.schema import FleetSchema, check_known, check_whole, install_schema, read_schema
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

T = TypeVar("T")

LEASE = 15.0  # seconds a node is believed in without a word
CHANNEL = "palinurus_news"
AGAIN = 0.1  # seconds before a lost connection is tried again, at first
_STALE = "PAL01"
_REFUSED: dict[str, type[StateError]] = {_STALE: port.StaleClaim, "PAL02": port.SessionFull, "PAL03": port.SlotTaken}
_LOST, _DENIED = "PAL04", "42501"
_APPLY = "SELECT apply_changes($1, $2, $3, $4, $5::jsonb, $6::bytea[], $7)"


class FleetMember(msgspec.Struct, frozen=True):
    """A node as it joins. `lost` is told why, if the others go on without it; `ended` is called when it is closed.
    `database_time`: moments are those of the server, so that nodes agree; otherwise those of the clock."""

    name: str
    lease: float = LEASE
    lost: Callable[[str], None] = lambda why: None
    ended: Callable[[], None] = lambda: None
    database_time: bool = True
    facts: MemberFacts = MemberFacts()
    schema: FleetSchema = msgspec.field(default_factory=read_schema)  # tests pretend another version


class ChangeOp(msgspec.Struct):
    """A change on its way: the server's `op`, its bytes, and who waits for it."""

    op: dict[str, Any]
    blobs: list[bytes]
    done: asyncio.Future[Any]


class FleetLink:
    """Made by `connect_fleet`. One per node."""

    def __init__(self, driver: Any, url: str, clock: Clock, member: FleetMember) -> None:
        self.node = member.name
        self.member = member
        self.epoch = 0
        self.figures = FleetFigures()
        self.lost: StateBroken | None = None  # why this node is none of the fleet any more
        self.reads: Any = None  # asyncpg's pool
        self._driver = driver
        # What breaks a connection, after which the same may be asked on another; and whatever a server can raise.
        self._cut = (OSError, driver.InterfaceError, driver.PostgresConnectionError, driver.CannotConnectNowError,
                     driver.AdminShutdownError)  # fmt: skip
        self._failed = (OSError, driver.PostgresError, driver.InterfaceError)
        self._url = url
        self.clock = self._clock = clock
        self._lease = member.lease
        self._writer: Any = None
        self._bus: Any = None
        self._bus_free = asyncio.Lock()
        self._queue: list[ChangeOp] = []
        self._number = 0
        self._seen = 0  # news up to this one were told
        self._listeners: list[NewsListener] = []
        self._wake = asyncio.Event()
        self._poke = asyncio.Event()
        self._tasks = TaskSet("the line to the fleet")
        self._writing: asyncio.Task[None] | None = None
        self._closing = False

    # --- coming and going --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect, bring the tables up to date, join. Raises StateUnwritable, StateBroken."""
        path = self.member.schema.search_path
        options = {"server_settings": {"search_path": path, "application_name": f"palinurus {self.node}"[:60],
                                       "idle_in_transaction_session_timeout": str(int(self._lease * 500))}}  # fmt: skip
        self._options = options
        try:
            self._writer = await self._connect()
            await install_schema(self._writer, self.member.schema)
            await check_whole(self._writer)
            self._bus = await self._listen()
            self.reads = await self._driver.create_pool(self._url, min_size=1, max_size=4, **options)
            join = "SELECT join_fleet($1, make_interval(secs => $2))"
            self.epoch = await self._bus.fetchval(join, self.node, self._lease)
            self._seen = await self._bus.fetchval("SELECT coalesce(max(rev), 0) FROM news")
            await self._describe()
        except self._failed as error:
            denied = getattr(error, "sqlstate", "") == _DENIED
            fix = "`pal fleet init URL` as the owner of the database" if denied else "`pal doctor` says what is wrong"
            raise StateUnwritable(f"the fleet's database: {error}", fix=fix) from None
        except StateBroken:
            self._cut_all()
            raise
        self._writing = self._tasks.start(self._write())
        for work in (self._renew(), self._hear()):
            self._tasks.start(work)

    async def _describe(self) -> None:
        """Say who this node is. Raises StateBroken if the tables became too new since they were looked at."""
        schema, facts = self.member.schema, self.member.facts
        told = {"version": schema.version, "functions": schema.place, "now": self._clock.now()}
        said = msgspec.json.encode({**told, **msgspec.to_builtins(facts)}).decode()
        found = await self._bus.fetchval("SELECT describe_node($1, $2, $3::jsonb)", self.node, self.epoch, said)
        check_known(found, schema)
        self.figures.renewed = self._clock.monotonic()

    async def _connect(self) -> Any:
        return await self._driver.connect(self._url, **self._options)

    async def connect(self, **settings: str) -> Any:
        """One more connection, for who has use for one."""
        options = {**self._options["server_settings"], **settings}
        return await self._driver.connect(self._url, server_settings=options)

    @property
    def failed(self) -> tuple[type[Exception], ...]:
        """Whatever a server or the way to it can raise."""
        return self._failed

    async def _listen(self) -> Any:
        conn = await self._connect()
        await conn.add_listener(CHANNEL, lambda *told: self._poke.set())
        return conn

    async def stop(self) -> None:
        """Finish what is queued, leave the fleet."""
        if self._closing:
            return
        self._closing = True
        self._wake.set()
        if self._writing is not None:
            await asyncio.wait((self._writing,))
        await self._tasks.close()
        with contextlib.suppress(*self._failed):
            if self.lost is None:
                await self._bus.execute("SELECT leave_fleet($1, $2)", self.node, self.epoch)
                await self._bus.execute(f"NOTIFY {CHANNEL}")
        self._cut_all()

    def _cut_all(self) -> None:
        for conn in (self._writer, self._bus, self.reads):
            if conn is not None:
                conn.terminate()

    # --- changes -----------------------------------------------------------------------------------------------

    def put(self, op: dict[str, Any], blobs: list[bytes]) -> asyncio.Future[Any]:
        """Queue a change. It happens even if the caller stops waiting. Raises StateError after `stop`."""
        if self.lost is not None:
            raise StateBroken(self.lost.message, fix=self.lost.fix)
        if self._closing:
            raise StateError("the store is closed")
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append(ChangeOp(op, blobs, done))
        self._wake.set()
        return done

    async def _write(self) -> None:
        while self.lost is None:
            await self._wake.wait()
            self._wake.clear()
            ops, self._queue = self._queue, []
            if ops:
                await self._batch(ops)
            elif self._closing:
                return
            if self._closing:
                self._wake.set()
        _refuse(self._queue, self.lost)

    async def _batch(self, ops: list[ChangeOp]) -> None:
        self._number += 1
        told, blobs = _encode(ops)
        began = self._clock.monotonic()
        try:
            try:
                answer = await self._insist(lambda: self._send(told, blobs, guarded=False))
            except self._driver.PostgresError as error:
                if error.sqlstate == _LOST:
                    raise
                # One change is refused, and took the others along: each by itself.
                answer = await self._insist(lambda: self._send(told, blobs, guarded=True))
        except self._driver.PostgresError as error:
            if error.sqlstate == _LOST:
                self._lose(str(error))
            _refuse(ops, self.lost or StateError(f"the fleet's database: {error}"))
        except StateError as error:
            _refuse(ops, error)
        else:
            self.figures.count_batch(len(ops), self._clock.monotonic() - began)
            self._tell(ops, msgspec.json.decode(answer))

    async def _send(self, told: str, blobs: list[bytes], *, guarded: bool) -> Any:
        now = None if self.member.database_time else self._clock.now()
        return await self._writer.fetchval(_APPLY, self.node, self.epoch, self._number, now, told, blobs, guarded)

    async def _insist(self, run: Callable[[], Awaitable[T]]) -> T:
        """Try until there is an answer; a connection that broke is made anew. Raises StateError once the lease is
        over: then others have taken over."""
        backoff = Backoff(AGAIN, 2.0)
        while True:
            try:
                if self._writer.is_closed():
                    self._writer = await self._connect()
                return await run()
            except self._cut as error:
                self._writer.terminate()
                if self.lost is not None:
                    raise StateBroken(self.lost.message, fix=self.lost.fix) from None
                log.warning("the fleet's database cannot be reached (%s); trying again", error)
                await self._clock.sleep(backoff.next_delay())

    def _tell(self, ops: list[ChangeOp], answer: dict[str, Any]) -> None:
        for one, result in zip(ops, answer["results"], strict=True):
            refused = isinstance(result, dict) and "refused" in result
            if refused and result["refused"] == _STALE:
                self.figures.stale[one.op["op"]] += 1
            if one.done.done():
                continue  # whoever waited was cancelled; it happened all the same
            if refused:
                kind = _REFUSED.get(result["refused"], StateError)
                one.done.set_exception(kind(result["message"]))
            else:
                one.done.set_result(result)
        if answer["news"]:
            self._tasks.start(self._poke_others())

    async def _poke_others(self) -> None:
        async with self._bus_free:
            with contextlib.suppress(*self._failed):
                await self._bus.execute(f"NOTIFY {CHANNEL}")

    async def read(self, run: Callable[[Any], Awaitable[T]]) -> T:
        """What `run` reads; asked again if the connection broke. Raises StateError."""
        for wait in (AGAIN, 1.0, None):
            try:
                return await run(self.reads)
            except self._cut as error:
                if wait is None or self._closing:
                    raise StateError(f"the fleet's database cannot be reached: {error}") from None
                await self._clock.sleep(wait)
            except self._driver.PostgresError as error:
                raise StateError(f"the fleet's database: {error}") from None
        raise AssertionError("the last try returns or raises")

    # --- the lease ---------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        now = self._clock.monotonic
        until = now() + self._lease
        while True:
            await self._clock.sleep(self._lease / 3)
            try:
                async with self._bus_free, asyncio.timeout(max(0.1, until - now())):
                    if self._bus.is_closed():
                        self._bus = await self._listen()
                    began = now()
                    renew = "SELECT renew_lease($1, $2, make_interval(secs => $3))"
                    alive = await self._bus.fetchval(renew, self.node, self.epoch, self._lease)
                    await self._report_stale()
            except (TimeoutError, *self._failed) as error:
                log.warning("the lease could not be renewed: %s", error)
                self._bus.terminate()
                alive = now() < until
            else:
                until = began + self._lease if alive else until
                self.figures.renewed = began
            if not alive:
                return self._lose("its lease is over")
            self._poke.set()  # news whose word was lost are found now

    async def _report_stale(self) -> None:
        """For `pal fleet status`, when there are more than it knows."""
        if self.figures.told != (count := self.figures.stale.total()):
            said = msgspec.json.encode(self.figures.stale).decode()
            sql = "UPDATE node SET stale = $3::jsonb WHERE id = $1 AND epoch = $2"
            await self._bus.execute(sql, self.node, self.epoch, said)
            self.figures.told = count

    def _lose(self, why: str) -> None:
        if self.lost is None:
            self.lost = StateBroken(f"node {self.node} is out of the fleet: {why}", fix="start it again")
            log.critical("%s; nothing more is done here", self.lost.message)
            self._wake.set()
            self.member.lost(why)

    # --- news --------------------------------------------------------------------------------------------------

    def watch(self, listener: NewsListener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def _hear(self) -> None:
        while True:
            await self._poke.wait()
            self._poke.clear()
            with contextlib.suppress(*self._failed):
                await self.pull()

    async def pull(self) -> None:
        """Tell the listeners what others did since the last time."""
        found = await self.reads.fetch("SELECT rev, node, said FROM news WHERE rev > $1 ORDER BY rev", self._seen)
        for rev, node, said in found:
            if rev <= self._seen:
                continue  # two looked at once
            self._seen = rev
            self.figures.news += node != self.node
            for one in msgspec.json.decode(said, type=list[tuple[Any, str, str, str]]) if node != self.node else ():
                for listener in tuple(self._listeners):
                    hand_news(listener, StoreNews(*one))


async def connect_fleet(url: str, clock: Clock, member: FleetMember) -> FleetLink:
    """See `open_postgres_store`."""
    link = FleetLink(load_driver(), url, clock, member)
    await link.start()
    return link


def load_driver() -> Any:
    """asyncpg. Raises BadRequest where it is not installed."""
    try:
        return late.load_part("asyncpg")
    except ModuleNotFoundError:
        raise BadRequest("a store on PostgreSQL needs asyncpg", fix="pal extras add fleet") from None


def _encode(ops: list[ChangeOp]) -> tuple[str, list[bytes]]:
    """The batch as JSON and its bytes. Each change counts its own from 1; here they follow one another."""
    blobs: list[bytes] = []
    made = []
    for one in ops:
        made.append(_shift(one.op, len(blobs)))
        blobs += one.blobs
    told = msgspec.json.encode(made)
    if b"\\u0000" in told:  # PostgreSQL's text cannot hold it
        told = msgspec.json.encode(_without_zero(made))
    return told.decode(), blobs


class BlobPlace(int):
    """The place of a change's bytes among its own, from 1."""


def _shift(value: Any, by: int) -> Any:
    if isinstance(value, BlobPlace):
        return int(value) + by
    if isinstance(value, dict):
        return {key: _shift(one, by) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_shift(one, by) for one in value]
    return value


def _without_zero(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(value, dict):
        return {key: _without_zero(one) for key, one in value.items()}
    return [_without_zero(one) for one in value] if isinstance(value, list) else value


def _refuse(ops: list[ChangeOp], error: StateError | None) -> None:
    assert error is not None
    for one in ops:
        if not one.done.done():
            one.done.set_exception(type(error)(error.message, fix=error.fix))
