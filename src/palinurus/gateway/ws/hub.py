"""Everyone who is connected, and how events reach them. One encoded payload serves all; a client that reads slowly
loses what may be lost or is closed, and costs the others nothing. Knows no sockets: a `Member` is what a connection
shows of itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from palinurus.gateway.rpc import EVENTS, ConnectedClient
from palinurus.gateway.ws import frames
from palinurus.gateway.ws.resume import PastEvent, ReconnectWindow, ResumePoint, Ring

RESUME_CAP = "resume"  # a client that says it wants positions
REVOKED = 4001


class HubMember(Protocol):
    """A connection that has logged in."""

    client: ConnectedClient

    def push(self, head: bytes, payload: bytes, tail: bytes, droppable: bool = False) -> None:
        """Queue an event. Never waits; deals with a full queue itself."""
        ...

    def close(self, code: int, reason: str) -> None:
        """End it now."""
        ...


class _Seat:
    """A member's counter, topics and names (its own id and those of connections it took up)."""

    __slots__ = ("member", "names", "positions", "seq", "topics")

    def __init__(self, member: HubMember) -> None:
        self.member = member
        self.seq = 0
        self.topics: set[str] = set()
        self.names = {member.client.conn}
        self.positions = RESUME_CAP in member.client.caps


class ResumeResult(NamedTuple):
    """What became of a wish to go on: the events missed, or None and the client must read everything anew."""

    missed: list[PastEvent] | None


class ClientHub:
    """The members. All calls return at once."""

    def __init__(self, monotonic: Callable[[], float], ring: Ring | None = None) -> None:
        self.epoch = uuid.uuid4().hex
        self.ring = ring or Ring()
        self._seats: dict[str, _Seat] = {}
        self._names: dict[str, _Seat] = {}
        self._gone = ReconnectWindow(monotonic)

    def join(self, member: HubMember, resume: ResumePoint | None = None) -> ResumeResult | None:
        """From now on events reach it. With `resume` it first takes up what it was before; see `replay`.

        Joining and looking at the past are one step: nothing is missed and nothing comes twice.
        """
        seat = _Seat(member)
        self._seats[member.client.conn] = self._names[member.client.conn] = seat
        if resume is None:
            return None
        left = self._gone.take(resume.conn_id, _owner(member.client)) if resume.conn_id else None
        if left is not None:
            seat.topics |= left.topics
            seat.names |= left.names
            self._names.update(dict.fromkeys(left.names, seat))
        past = self.ring.since(resume.pos) if resume.epoch == self.epoch else None
        return ResumeResult(None if past is None else [p for p in past if self._concerns(seat, p)])

    def replay(self, conn: str, missed: Iterable[PastEvent]) -> None:
        """Send what was missed. To be called right after hello-ok was queued, in the same step as `join`."""
        seat = self._seats[conn]
        for past in missed:
            seq = self._count(seat) if past.topics is None and not past.conn else None
            seat.member.push(
                frames.encode_event_head(past.event), past.payload, frames.encode_event_tail(seq, pos=past.pos)
            )

    def leave(self, conn: str) -> None:
        """It is gone."""
        seat = self._seats.pop(conn, None)
        if seat is None:
            return
        for name in seat.names:
            if self._names.get(name) is seat:
                del self._names[name]
        if seat.positions:
            self._gone.add(conn, _owner(seat.member.client), frozenset(seat.topics), frozenset(seat.names))

    def members(self) -> list[HubMember]:
        """Everyone, oldest first."""
        return [seat.member for seat in self._seats.values()]

    def broadcast(self, event: str, payload: Any, *, version: bytes = b"", droppable: bool = False) -> None:
        """To everyone who may see it, numbered. A number is used up even if the event is then dropped."""
        kind = EVENTS[event]
        head, body = frames.encode_event_head(event), frames.encode_json(payload)
        pos = self.ring.add(event, body) if kind.kept else None
        for seat in tuple(self._seats.values()):
            if seat.member.client.may(kind.scope):
                tail = frames.encode_event_tail(self._count(seat), version, pos if seat.positions else None)
                seat.member.push(head, body, tail, droppable)

    def tell(self, topics: Iterable[str], event: str, payload: Any, *, droppable: bool = False) -> None:
        """To everyone who follows one of `topics` and may see it, without a number."""
        kind, wanted = EVENTS[event], frozenset(topics)
        seats = [s for s in self._seats.values() if not wanted.isdisjoint(s.topics) and s.member.client.may(kind.scope)]
        body = frames.encode_json(payload)
        pos = self.ring.add(event, body, topics=wanted) if kind.kept else None
        self._push(seats, event, body, pos, droppable)

    def send(self, conn: str, event: str, payload: Any, *, droppable: bool = False) -> bool:
        """To one connection, or to the one that took it up."""
        kind, seat = EVENTS[event], self._names.get(conn)
        body = frames.encode_json(payload)
        pos = self.ring.add(event, body, conn=conn) if kind.kept else None
        found = seat is not None and seat.member.client.may(kind.scope)
        self._push([seat] if seat is not None and found else [], event, body, pos, droppable)
        return found

    def follow(self, conn: str, topic: str) -> None:
        """`tell` reaches it from now on."""
        if conn in self._names:
            self._names[conn].topics.add(topic)

    def unfollow(self, conn: str, topic: str) -> None:
        """… and no more."""
        if conn in self._names:
            self._names[conn].topics.discard(topic)

    def followers(self, topics: Iterable[str]) -> frozenset[str]:
        """Ids of the connections that follow one of `topics`, those that may come back included."""
        wanted = frozenset(topics)
        here = frozenset(conn for conn, seat in self._seats.items() if not wanted.isdisjoint(seat.topics))
        return here | self._gone.following(wanted)

    def disconnect(self, keep: Callable[[ConnectedClient], bool], code: int, reason: str) -> int:
        """End every connection that `keep` says no to. Returns how many."""
        out = [seat.member for seat in self._seats.values() if not keep(seat.member.client)]
        for member in out:
            member.close(code, reason)
        return len(out)

    def _push(self, seats: Iterable[_Seat], event: str, body: bytes, pos: int | None, droppable: bool) -> None:
        head = frames.encode_event_head(event)
        for seat in seats:
            seat.member.push(head, body, frames.encode_event_tail(pos=pos if seat.positions else None), droppable)

    @staticmethod
    def _count(seat: _Seat) -> int:
        seat.seq += 1
        return seat.seq

    @staticmethod
    def _concerns(seat: _Seat, past: PastEvent) -> bool:
        if not seat.member.client.may(EVENTS[past.event].scope):
            return False
        if past.conn:
            return past.conn in seat.names
        return past.topics is None or not past.topics.isdisjoint(seat.topics)


def _owner(client: ConnectedClient) -> tuple[str, str]:
    return client.principal, client.device
