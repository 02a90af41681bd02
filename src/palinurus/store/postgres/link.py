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
from palinurus.store.postgres.batch import ChangeOp, encode_batch, refuse_changes
from palinurus.store.postgres.lease import START, NodeLease
from palinurus.store.postgres.reads import AGAIN, ReadConnections
from palinurus.store.postgres.schema import FleetSchema, check_known, check_whole, install_schema, read_schema
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

T = TypeVar("T")

LEASE = 15.0  # seconds a node is believed in without a word
CHANNEL = "palinurus_news"
_STALE = "PAL01"
_REFUSED: dict[str, type[StateError]] = {_STALE: port.StaleClaim, "PAL02": port.SessionFull, "PAL03": port.SlotTaken}
_LOST, _DENIED = "PAL04", "42501"
_APPLY = "SELECT apply_changes($1, $2, $3, $4, $5::jsonb, $6::bytea[], $7)"


class FleetMember(msgspec.Struct, frozen=True):
    """A node as it joins. `lost` is told why, if the others go on without it, and ends the process; such a node has a
    guard. `ended` is called when it is closed. `database_time`: moments are the server's, so that nodes agree."""

    name: str
    lease: float = LEASE
    lost: Callable[[str], None] | None = None
    ended: Callable[[], None] = lambda: None
    database_time: bool = True
    facts: MemberFacts = MemberFacts()
    schema: FleetSchema = msgspec.field(default_factory=read_schema)  # tests pretend another version


class FleetLink:
    """One per node; see `open_postgres_store`."""

    def __init__(self, driver: Any, url: str, clock: Clock, member: FleetMember) -> None:
        self.node = member.name
        self.member = member
        self.epoch = 0
        self.figures = FleetFigures()
        self.lost: StateBroken | None = None  # why this node is none of the fleet any more
        self._driver = driver
        # What breaks a connection, after which the same may be asked on another; and whatever a server can raise.
        self._cut = (OSError, driver.InterfaceError, driver.InternalClientError, driver.PostgresConnectionError,
                     driver.OperatorInterventionError, driver.TooManyConnectionsError)  # fmt: skip
        self._failed = (OSError, driver.PostgresError, driver.InterfaceError, driver.InternalClientError)
        self._url = url
        self.clock = self._clock = clock
        self.lease = NodeLease(clock, member.lease)
        self._slow = max(5.0, member.lease / 2)  # seconds for an answer; then the connection counts as broken
        self.reads = ReadConnections(self._connect, self._slow, clock, cut=self._cut, over=self._is_over)
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
        told = {"search_path": self.member.schema.search_path, "application_name": f"palinurus {self.node}"[:60]}
        told["idle_in_transaction_session_timeout"] = str(int(self.member.lease * 500))
        self._options: dict[str, Any] = {"server_settings": told, "timeout": self._slow}
        try:
            self._writer = await self._connect()
            await install_schema(self._writer, self.member.schema)
            await check_whole(self._writer)
            self._bus = await self._listen()
            join, began = "SELECT join_fleet($1, make_interval(secs => $2))", self._clock.boottime()
            first = max(START, self.lease.seconds)
            self.epoch = await self._bus.fetchval(join, self.node, first)
            self._seen = await self._bus.fetchval("SELECT coalesce(max(rev), 0) FROM news")
            await self._describe()
        except self._failed as error:
            denied = getattr(error, "sqlstate", "") == _DENIED
            fix = "`pal fleet init URL` as the owner of the database" if denied else "`pal doctor` says what is wrong"
            raise StateUnwritable(f"the fleet's database: {error}", fix=fix) from None
        except StateBroken:
            self._cut_all()
            raise
        self.lease.begin(began, first)
        if self.member.lost is not None:
            self.lease.start_guard()
        self._writing = self._tasks.start(self._live(self._write()))
        for work in (self._renew(), self._hear()):
            self._tasks.start(self._live(work))

    async def _live(self, work: Awaitable[None]) -> None:
        """A node without one of these holds its lease and does nothing: then others had better go on without it."""
        try:
            await work
        except Exception as error:  # task boundary
            log.exception("the line to the fleet's database broke")
            self._lose(f"its line to the database broke: {error!r}")
            refuse_changes(self._queue, self.lost)

    def _is_over(self) -> bool:
        return self._closing or self.lost is not None

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
        with contextlib.suppress(TimeoutError, *self._failed):
            async with asyncio.timeout(0 if self.lost is not None else self._slow):
                await self._bus.execute("SELECT leave_fleet($1, $2)", self.node, self.epoch)
                await self._bus.execute(f"NOTIFY {CHANNEL}")
        self._cut_all()
        await self.lease.close()

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
                try:
                    await self._batch(ops)
                finally:  # nobody waits for what was given up
                    refuse_changes(ops, StateBroken("the line to the fleet's database broke", fix="start it again"))
            elif self._closing:
                return
            if self._closing:
                self._wake.set()
        refuse_changes(self._queue, self.lost)

    async def _batch(self, ops: list[ChangeOp]) -> None:
        self._number += 1
        told, blobs = encode_batch(ops)
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
            refuse_changes(ops, self.lost or StateError(f"the fleet's database: {error}"))
        except StateError as error:
            refuse_changes(ops, error)
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
                async with asyncio.timeout(self._slow):  # of a connection that died silently no end is heard
                    if self._writer.is_closed():
                        self._writer = await self._connect()
                    return await run()
            except (TimeoutError, *self._cut) as error:
                self._writer.terminate()
                if self.lost is not None:
                    raise StateBroken(self.lost.message, fix=self.lost.fix) from None
                log.warning("the fleet's database cannot be reached (%r); trying again", error)
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
        """What `run` reads, when the database can be reached. Raises StateError."""
        try:
            return await self.reads.ask(run)
        except self._driver.PostgresError as error:
            raise StateError(f"the fleet's database: {error}") from None

    # --- the lease ---------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        backoff = Backoff(AGAIN, 1.0)
        while True:
            await self.lease.wait_due()
            while not await self._try_renewal():
                if self.lost is None and self.lease.left <= 0:
                    self._lose("its lease is over")
                if self.lost is not None:
                    return
                await self._clock.sleep(min(backoff.next_delay(), max(self.lease.left, 0.0)))
            backoff.reset()
            self._poke.set()  # news whose word was lost are found now

    async def _try_renewal(self) -> bool:
        try:
            async with asyncio.timeout(self.lease.patience), self._bus_free:
                if self._bus.is_closed():
                    self._bus = await self._listen()
                began = self._clock.boottime()
                renew = "SELECT keep_lease($1, $2, make_interval(secs => $3))"
                told = await self._bus.fetchval(renew, self.node, self.epoch, self.lease.seconds)
                await self._report_stale()
        except (TimeoutError, *self._failed) as error:
            log.warning("the lease could not be renewed: %r", error)
            self._bus.terminate()
            return False
        answer = msgspec.json.decode(told)
        if not answer["alive"]:
            self._lose("its lease is over")
            return False
        self.lease.extend(began, answer["soon"])
        self.figures.renewed = self._clock.monotonic()
        if answer["news"]:
            self._tasks.start(self._poke_others())
        for lane in answer["waiting"]:
            self._hand(StoreNews("waiting", lane))
        for ident in answer["unsaid"]:
            self._hand(StoreNews("unsaid", ident))
        return True

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
            self.lease.end(self.lost)
            if self.member.lost is not None:
                self.member.lost(why)

    # --- news --------------------------------------------------------------------------------------------------

    def watch(self, listener: NewsListener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def _hear(self) -> None:
        while True:
            await self._poke.wait()
            self._poke.clear()
            with contextlib.suppress(StateError):
                await self.pull()

    async def pull(self) -> None:
        """Tell the listeners what others did since the last time."""
        news = "SELECT rev, node, said FROM news WHERE rev > $1 ORDER BY rev"
        found = await self.read(lambda conn: conn.fetch(news, self._seen))
        for rev, node, said in found:
            if rev <= self._seen:
                continue  # two looked at once
            self._seen = rev
            self.figures.news += node != self.node
            for one in msgspec.json.decode(said, type=list[tuple[Any, str, str, str]]) if node != self.node else ():
                self._hand(StoreNews(*one))

    def _hand(self, news: StoreNews) -> None:
        for listener in tuple(self._listeners):
            hand_news(listener, news)


def load_driver() -> Any:
    """asyncpg. Raises BadRequest where it is not installed."""
    try:
        return late.load_part("asyncpg")
    except ModuleNotFoundError:
        raise BadRequest("a store on PostgreSQL needs asyncpg", fix="pal extras add fleet") from None
