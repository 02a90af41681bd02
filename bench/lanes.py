"""What becomes of 100,000 conversations on many nodes and one database: a simulation, pure and seeded.

The queues and lanes are the program's own (`inbox/queue.py`, `inbox/lanes.py`), one set for each node, told of each
other as the store tells them. The database is one server that does one batch after the other, at the turns a second
that `make bench` measures; a run takes as long as a model does. Time is counted, not waited for.

    python bench/lanes.py [--sessions 100000] [--rate 880] [--seconds 120]
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
import time
from collections import deque
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from measures import Bench, Row

SESSIONS, SECONDS, SEED = 100_000, 60.0, 7
RATE = 880.0  # turns a second that one PostgreSQL settles (docs/fleet.md)
RUN = 8.0  # seconds that a turn takes on average, nearly all of it the model's
WIDTH = 64  # runs at the same time on one node
LOADS = (0.3, 0.6, 0.9, 1.1)  # of what the database carries


class Figures(NamedTuple):
    load: float
    arrived: int
    settled: int
    nodes: int
    p50: float  # seconds in which a message could have run and did not
    p95: float
    p99: float
    backlog: int  # messages that wait at the end


class Fleet:
    """Nodes with the program's own books, and a store that says who is next."""

    def __init__(self, nodes: int, rate: float, seed: int) -> None:
        lanes = import_module("palinurus.inbox.lanes")
        self._queue = import_module("palinurus.inbox.queue")
        target = import_module("palinurus.core.types.inbound").Target("sim")
        self._place = self._queue.QueuePlace(target, False, ())
        self.lanes = [lanes.Lanes({"main": WIDTH}) for _ in range(nodes)]
        self.books = [lanes.SessionQueues(one) for one in self.lanes]
        self._cost = 0.5 / rate  # of each of the two commits of a turn
        self._free = 0.0  # when the database has done what it was asked
        self._dice = random.Random(seed)
        self._events: list[tuple[float, int, Any]] = []
        self._count = 0
        self._waiting: dict[str, deque[tuple[str, float]]] = {}
        self._heads: deque[str] = deque()  # sessions that could run if a slot were free
        self._running: set[str] = set()
        self._ends: dict[str, float] = {}  # of runs that others of their session waited for
        self.waits: list[float] = []
        self.settled = 0

    def at(self, moment: float, what: Any) -> None:
        self._count += 1
        heapq.heappush(self._events, (moment, self._count, what))

    def commit(self, now: float) -> float:
        """When a change that is asked for now is done."""
        self._free = max(self._free, now) + self._cost
        return self._free

    def arrive(self, now: float, session: str, ident: str) -> None:
        node = self._dice.randrange(len(self.books))
        self.at(self.commit(now), lambda done: self._accepted(done, node, session, ident, now))

    def _accepted(self, now: float, node: int, session: str, ident: str, came: float) -> None:
        idle = session not in self._running and session not in self._waiting
        if idle and self.lanes[node].take("main"):
            self._start(now, node, session, ident, came)
            return
        row = self._queue.QueueRow(ident, self._place, "followup")
        for book in self.books:  # as `inbox/peers.py` does with the news of it
            book.step(session, "main", self._queue.RestoreEvent(row))
        self._waiting.setdefault(session, deque()).append((ident, came))
        if idle:
            self._heads.append(session)
            self._fill(now)

    def _fill(self, now: float) -> None:
        """Whoever has a slot takes the head of the oldest session that waits."""
        order = self._dice.sample(range(len(self.lanes)), len(self.lanes))
        for node in order:
            while self._heads and self.lanes[node].room("main") and self.lanes[node].take("main"):
                session = self._heads.popleft()
                ident, came = self._waiting[session].popleft()
                if not self._waiting[session]:
                    del self._waiting[session]
                for number, book in enumerate(self.books):
                    if number != node:
                        book.step(session, "main", self._queue.AbsorbEvent((ident,)))
                self._start(now, node, session, ident, came)

    def _start(self, now: float, node: int, session: str, ident: str, came: float) -> None:
        assert session not in self._running, "two runs of one session"
        self._running.add(session)
        self.waits.append(now - max(came, self._ends.pop(session, 0.0)))
        self.books[node].step(session, "main", self._queue.ClaimEvent(ident, self._place))
        took = self._dice.lognormvariate(0.0, 0.8) * RUN / 1.377  # a long tail, as models have
        self.at(
            now + took, lambda then: self.at(self.commit(then), lambda done: self._ended(done, node, session, ident))
        )

    def _ended(self, now: float, node: int, session: str, ident: str) -> None:
        self._running.discard(session)
        self.settled += 1
        self.books[node].step(session, "main", self._queue.RunEndEvent(ident))
        self.lanes[node].give("main")
        if session in self._waiting:
            self._ends[session] = now
            self._heads.append(session)
        self._fill(now)

    def play(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            now, _, what = heapq.heappop(self._events)
            what(now)

    @property
    def backlog(self) -> int:
        return sum(len(one) for one in self._waiting.values())


def simulate(load: float, sessions: int, rate: float, seconds: float, *, seed: int = SEED) -> Figures:
    """Arrivals by chance, a few people writing much more than the rest; nodes enough for the runs, and a tenth."""
    asked = load * rate
    nodes = max(1, round(min(asked, rate) * RUN * 1.1 / WIDTH))
    fleet, dice = Fleet(nodes, rate, seed), random.Random(seed + 1)
    now, arrived = 0.0, 0
    while (now := now + dice.expovariate(asked)) < seconds:
        who = int(sessions * dice.random() ** 2)  # half of the messages come from a quarter of the people
        arrived += 1
        fleet.at(now, lambda then, who=who, ident=f"m{arrived}": fleet.arrive(then, f"s{who}", ident))
    fleet.play(seconds)
    cuts = statistics.quantiles(fleet.waits, n=100)
    return Figures(load, arrived, fleet.settled, nodes, cuts[49], cuts[94], cuts[98], fleet.backlog)


async def lanes(bench: Bench) -> list[Row]:
    """For `make bench`."""
    row = import_module("measures").Row
    sessions, seconds = (10_000, 20.0) if bench.quick else (SESSIONS, SECONDS)
    start = time.process_time()
    found = simulate(0.6, sessions, RATE, seconds)
    spent = (time.process_time() - start) * 1e6 / max(1, found.arrived)
    return [
        row(f"lanes, {sessions:,} sessions on {found.nodes} nodes: wait for a run, p99", [found.p99 * 1000], "ms"),
        row("… what a message costs the queues of all nodes together", [spent], "us"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--rate", type=float, default=RATE, help="turns a second that the database carries")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    told = parser.parse_args()
    print(f"{told.sessions:,} sessions, database {told.rate:g} turns/s, a run {RUN:g} s, {WIDTH} runs a node")
    print("| load | messages/s | nodes | settled/s | wait p50 | p95 | p99 | waiting at the end |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for load in LOADS:
        one = simulate(load, told.sessions, told.rate, told.seconds)
        waits = " | ".join(f"{value * 1000:,.0f} ms" for value in (one.p50, one.p95, one.p99))
        rates = f"{one.arrived / told.seconds:.0f} | {one.nodes} | {one.settled / told.seconds:.0f}"
        print(f"| {load:.0%} | {rates} | {waits} | {one.backlog:,} |", flush=True)


if __name__ == "__main__":
    main()
