"""The queues of all sessions, as they are now. In memory; what waits is on disk too.

Every change is one step of the pure part (`queue.py`); the counts of the lanes follow from it.
"""

from __future__ import annotations

from collections.abc import Iterator

from palinurus.inbox.lanes import Lanes
from palinurus.inbox.queue import IDLE, Effect, QueueEvent, QueueRow, SessionQueue, step_queue


class SessionQueues:
    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._queues: dict[str, SessionQueue] = {}
        self._lane: dict[str, str] = {}

    def __contains__(self, session: str) -> bool:
        """Is something running or waiting?"""
        return session in self._queues

    def __iter__(self) -> Iterator[str]:
        return iter(self._queues)

    def state(self, session: str) -> SessionQueue:
        return self._queues.get(session, IDLE)

    def lane(self, session: str) -> str:
        """Of a session in the book."""
        return self._lane[session]

    def step(self, session: str, lane: str, event: QueueEvent) -> tuple[Effect, ...]:
        """Let it happen. Returns what is to be done."""
        before = self._queues.get(session, IDLE)
        after, effects = step_queue(before, event)
        if after is before:
            return effects
        self._lanes.add_backlog(lane, len(after.rows) - len(before.rows))
        if after.run or after.rows or after.dropped:
            self._queues[session], self._lane[session] = after, lane
        else:
            self._queues.pop(session, None)
            self._lane.pop(session, None)
        return effects

    def row(self, session: str, ident: str) -> QueueRow | None:
        return next((r for r in self.state(session).rows if r.id == ident), None)

    def find(self, ident: str) -> tuple[str, QueueRow] | None:
        """The session in which a message waits."""
        found = ((session, self.row(session, ident)) for session in self._queues)
        return next(((session, row) for session, row in found if row is not None), None)

    def has_doomed_head(self, session: str) -> bool:
        """Is the session free, with a message at its head that shall not run?"""
        state = self.state(session)
        return not state.run and bool(state.rows) and state.rows[0].state == "doomed"
