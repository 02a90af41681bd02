"""Jobs and heartbeats without a program: a store in memory, an inbox that answers at once, a clock that tests move."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from palinurus.config.declare import fill_section
from palinurus.config.findings import ConfigPlace
from palinurus.config.sections.schedule import CronSettings, HeartbeatSettings
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.types.inbound import Inbound, Target
from palinurus.errors import NotFound
from palinurus.store.port import ANY_RECORD, Acceptance, InboxRow, SessionRow, SlotTaken, StoreRecord, UsageRow
from palinurus.testing.clock import FakeClock, run_ready_tasks
from palinurus.triggers.events import SystemEvents
from palinurus.triggers.ports import TriggerPort
from palinurus.triggers.scheduler import Scheduler


class Memory:
    """The store's part that triggers use; `dies`: from the n-th write on nothing is written, as if we were killed."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], bytes] = {}
        self.slots: set[tuple[str, int]] = set()
        self.rows: dict[str, SessionRow] = {}
        self.ledger: list[UsageRow] = []
        self.dies = 0
        self.writes = 0

    def _write(self) -> None:
        self.writes += 1
        if 0 < self.dies <= self.writes:
            raise Killed

    async def put_record(self, kind: str, key: str, data: bytes | None, *, expect: bytes | None = ANY_RECORD) -> bool:
        self._write()
        if data is None:
            self.records.pop((kind, key), None)
        else:
            self.records[kind, key] = data
        return True

    async def get_record(self, kind: str, key: str) -> StoreRecord | None:
        data = self.records.get((kind, key))
        return None if data is None else StoreRecord(kind, key, data, 1 << 60)

    async def list_records(self, kind: str) -> list[StoreRecord]:
        return [StoreRecord(k, key, data, 1 << 60) for (k, key), data in sorted(self.records.items()) if k == kind]

    async def grant(self, name: str) -> bool:
        return True

    async def claim_slot(self, job: str, due: int) -> bool:
        self._write()
        new = (job, due) not in self.slots
        self.slots.add((job, due))
        return new

    async def session(self, key: str) -> SessionRow | None:
        return self.rows.get(key)

    async def list_usage(self, since: int, session: str | None = None) -> list[UsageRow]:
        return [s for s in self.ledger if session in (None, s.session)]


class Killed(BaseException):
    """The process is gone."""


class Inbox:
    """Takes each event once. `held` keeps runs going until `finish`."""

    def __init__(self, clock: FakeClock, memory: Memory) -> None:
        self.clock, self.memory = clock, memory
        self.taken: dict[str, Inbound] = {}  # by event
        self.ended: dict[str, tuple[str, str]] = {}
        self.held = False
        self.busy: tuple[str, ...] = ()  # sessions with a run going
        self.answer = ("answered", "done")

    async def submit(self, inbound: Inbound, sink: Any = None) -> Acceptance:
        self.memory._write()
        duplicate = inbound.event in self.taken
        if inbound.options.slot is not None and not duplicate:
            if inbound.options.slot in self.memory.slots:
                raise SlotTaken("it was claimed before")
            self.memory.slots.add(inbound.options.slot)
        self.taken.setdefault(inbound.event, inbound)
        if not self.held:
            self.ended.setdefault(inbound.event, self.answer)
        return Acceptance(inbound.event, duplicate, "queued")

    async def wait(self, item: str) -> InboxRow:
        if item not in self.taken:
            raise NotFound(item)
        while item not in self.ended:
            await self.clock.sleep(1)
        outcome, note = self.ended[item]
        session = self.taken[item].session
        return InboxRow(item, item, session, "cron", b"", 0, "done", outcome, note, 1)  # type: ignore[arg-type]

    def running(self, session: str) -> bool:
        return any(i.session == session and e not in self.ended for e, i in self.taken.items())

    def fires(self, job: str) -> list[int]:
        return sorted(int(e.rsplit(":", 1)[1]) for e in self.taken if e.startswith(f"cron:{job}:"))


class World:
    def __init__(self, home: str = "/nowhere", start: int | None = None, **beat: Any) -> None:
        self.clock = FakeClock() if start is None else FakeClock(start)
        self.memory = Memory()
        self.inbox = Inbox(self.clock, self.memory)
        beats = {"main": HeartbeatSettings(**beat)} if beat else {}
        agents = {"main": AgentSettings("main", "main", os.path.join(home, "w"))}
        self.settings = Settings(home, agents, "main", heartbeats=beats, cron=CronSettings(timezone="UTC", runs=50))
        self.posts: list[tuple[str, bytes, dict[str, str]]] = []
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.said: dict[str, tuple[Target, str]] = {}  # by id

    def configure(self, **cron: Any) -> None:
        """Other words of `cron`, as a file would write them."""
        made = fill_section(CronSettings, cron, ConfigPlace("", {}, []))
        made = msgspec.structs.replace(made, timezone="UTC", runs=50)
        self.settings = msgspec.structs.replace(self.settings, cron=made)

    async def run(self, key: Any, command: str, limit: float) -> str | None:
        """A watched command."""
        return None

    async def up(self) -> Scheduler:
        """A start, on what the last one left."""

        async def post(url: str, body: bytes, headers: dict[str, str]) -> int:
            self.posts.append((url, body, headers))
            return 200

        async def say(target: Target, text: str, ident: str) -> None:
            self.said.setdefault(ident, (target, text))

        port = TriggerPort(
            self.settings,
            self.memory,
            self.clock,
            self.inbox,
            post,
            say,
            ("fake",),
            self.run,  # type: ignore[arg-type]
        )
        work = Scheduler(port, SystemEvents(self.memory))
        await work.load()
        work.follow(lambda event, payload: self.told.append((event, payload)))
        return work

    async def step(self, work: Scheduler, seconds: float) -> int | None:
        """Let time pass, then look."""
        await self.clock.advance(seconds)
        due = await work.tick()
        await run_ready_tasks()
        return due
