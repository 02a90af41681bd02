"""Everyone who is connected, how events reach them, and what a client missed that lost its connection. One encoded
payload serves all; a client that reads slowly loses what may be lost or is closed, and costs the others nothing.

No I/O: a `HubMember` is what a connection shows of itself. A position means something only within one life of the
gateway, which is what `epoch` names.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec

from palinurus.gateway.rpc import EVENTS, ConnectedClient, GatewayEventKind
from palinurus.gateway.ws import frames

RING_EVENTS = 4096
RING_BYTES = 32 * 1024 * 1024
RECONNECT_MOST = 1000  # connections remembered after their end
RECONNECT_SECONDS = 300.0
PAST_SECONDS = 2 * RECONNECT_SECONDS  # that a connection is dead is noticed a while after its last event was seen
RESUME_CAP = "resume"  # a client that says it wants positions
REVOKED = 4001
DROP_ABOVE = 1024 * 1024  # bytes waiting above which droppable events are left out


class ResumePoint(msgspec.Struct, frozen=True, rename="camel"):
    """Where a client was: hello-ok's `resume.epoch`, the `pos` of the last event it saw, and its old connection."""

    epoch: str
    pos: int
    conn_id: str = ""


class PastEvent(msgspec.Struct, frozen=True):
    """An event that was sent. `topics` None and `conn` "": to everybody (numbered)."""

    pos: int
    event: str
    payload: bytes
    topics: frozenset[str] | None = None
    conn: str = ""
    at: float = 0.0


class Ring:
    """The latest events. Positions start at 1 and have no holes."""

    def __init__(self, events: int = RING_EVENTS, size: int = RING_BYTES) -> None:
        self._past: deque[PastEvent] = deque()
        self._events = events
        self._limit = size
        self._size = 0
        self.pos = 0

    def __len__(self) -> int:
        return len(self._past)

    def add(
        self, event: str, payload: bytes, *, topics: frozenset[str] | None = None, conn: str = "", at: float = 0.0
    ) -> int:
        """Keep an event; returns its position."""
        self.pos += 1
        self._past.append(PastEvent(self.pos, event, payload, topics, conn=conn, at=at))
        self._size += len(payload)
        while self._past and (len(self._past) > self._events or self._size > self._limit):
            self._size -= len(self._past.popleft().payload)
        return self.pos

    def skip(self, events: int) -> None:
        """So many events that nobody can ask for, now or later: positions go on, and nothing before is left."""
        self.pos += events
        self._past.clear()
        self._size = 0

    def forget_before(self, at: float) -> None:
        """Let go of what is older."""
        while self._past and self._past[0].at < at:
            self._size -= len(self._past.popleft().payload)

    def since(self, pos: int) -> list[PastEvent] | None:
        """Everything after `pos`, oldest first; None when some of it is no longer here or was never."""
        if pos > self.pos or pos < 0:
            return None
        missing = self.pos - pos
        if missing > len(self._past):
            return None
        return [self._past[index] for index in range(len(self._past) - missing, len(self._past))]


class ClosedConnection(msgspec.Struct, frozen=True):
    """A connection that ended: whose it was and what it followed."""

    owner: tuple[str, str]  # principal, device
    topics: frozenset[str]
    names: frozenset[str]  # its id, and those it had taken over
    at: float


class ReconnectWindow:
    """Connections of the last minutes, so that their owner can take them up again."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._left: OrderedDict[str, ClosedConnection] = OrderedDict()

    def add(self, conn: str, owner: tuple[str, str], topics: frozenset[str], names: frozenset[str]) -> None:
        """Remember one that ended."""
        self._left[conn] = ClosedConnection(owner, topics, names, self._now())
        while self._left:
            first = next(iter(self._left.values()))
            if len(self._left) <= RECONNECT_MOST and first.at > self._now() - RECONNECT_SECONDS:
                return
            self._left.popitem(last=False)

    def expects(self) -> bool:
        """May anybody still come back?"""
        last = next(reversed(self._left.values()), None)
        return last is not None and last.at > self._now() - RECONNECT_SECONDS

    def following(self, topics: frozenset[str]) -> frozenset[str]:
        """Those that followed one of `topics` and may still come back."""
        since = self._now() - RECONNECT_SECONDS
        return frozenset(
            conn for conn, left in self._left.items() if left.at > since and not topics.isdisjoint(left.topics)
        )

    def take(self, conn: str, owner: tuple[str, str]) -> ClosedConnection | None:
        """What it was, if it is this owner's and not too long ago. Given once."""
        left = self._left.get(conn)
        if left is None or left.owner != owner or left.at <= self._now() - RECONNECT_SECONDS:
            return None
        return self._left.pop(conn)


class OutgoingFrames:
    """What waits to be written to one client, in pieces: clients share a payload's bytes. `wake`: there is work.

    A client that does not read loses droppable events first; when even the others no longer fit, it is to be closed.
    """

    def __init__(self, limit: int = frames.BUFFERED, drop: int = DROP_ABOVE) -> None:
        self.wake = asyncio.Event()
        self.size = 0
        self.dropped = 0
        self._limit = limit
        self._drop = drop
        self._waiting: deque[tuple[bytes, ...]] = deque()

    def add(self, pieces: tuple[bytes, ...], behind: int, droppable: bool = False) -> bool:
        """Queue a frame; `behind` is what the transport still holds. False when the client is too slow."""
        waiting = self.size + behind
        if droppable and waiting > self._drop:
            self.dropped += 1
            return True
        size = sum(map(len, pieces))
        if waiting + size > self._limit and waiting:
            return False
        self._waiting.append(pieces)
        self.size += size
        self.wake.set()
        return True

    def take(self) -> bytes | None:
        """The next frame as one piece; None when nothing waits."""
        if not self._waiting:
            self.wake.clear()
            return None
        frame = b"".join(self._waiting.popleft())
        self.size -= len(frame)
        return frame

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()
        self.size = 0


class HubMember(Protocol):
    """A connection that has logged in."""

    conn: str
    client: ConnectedClient

    def push(self, head: bytes, payload: bytes, tail: bytes, droppable: bool = False) -> None:
        """Queue an event. Never waits; deals with a full queue itself."""
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


class ClientHub:
    """The members. All calls return at once."""

    def __init__(self, monotonic: Callable[[], float], ring: Ring | None = None) -> None:
        self.epoch = uuid.uuid4().hex
        self.ring = Ring() if ring is None else ring
        self._seats: dict[str, _Seat] = {}
        self._names: dict[str, _Seat] = {}
        self._now = monotonic
        self._gone = ReconnectWindow(monotonic)

    def join(self, member: HubMember, resume: ResumePoint | None = None) -> list[PastEvent] | None:
        """From now on events reach it. With `resume` it first takes up what it was before; see `replay`.

        Returns the events it missed; None: it must read everything anew.
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
        return None if past is None else [p for p in past if self._concerns(seat, p)]

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

    def broadcast(self, event: str, payload: Any, *, drop_if_slow: bool = False) -> None:
        """To everyone who may see the event (of EVENTS), numbered: also an event that is dropped uses up a number."""
        kind = EVENTS[event]
        if not self._is_heard(kind):
            return
        head, body = frames.encode_event_head(event), frames.encode_json(payload)
        pos, version = self._keep(kind, event, body), self.state_version(event)
        for seat in tuple(self._seats.values()):
            if seat.member.client.hears(kind):
                tail = frames.encode_event_tail(self._count(seat), version, pos if seat.positions else None)
                seat.member.push(head, body, tail, drop_if_slow)

    def state_version(self, event: str) -> bytes:
        """The stateVersion that goes with an event, encoded; b"" for most."""
        return b""

    def tell(self, topics: Iterable[str], event: str, payload: Any, *, drop_if_slow: bool = False) -> None:
        """To everyone who follows one of `topics` and may see it, without a number."""
        kind, wanted = EVENTS[event], frozenset(topics)
        if not self._is_heard(kind):
            return
        seats = [s for s in self._seats.values() if not wanted.isdisjoint(s.topics) and s.member.client.hears(kind)]
        body = frames.encode_json(payload)
        pos = self._keep(kind, event, body, topics=wanted)
        self._push(seats, event, body, pos, droppable=drop_if_slow)

    def send(self, conn: str, event: str, payload: Any, *, drop_if_slow: bool = False) -> bool:
        """To one connection, or to the one that took it up."""
        kind, seat = EVENTS[event], self._names.get(conn)
        if not self._is_heard(kind):
            return False
        body = frames.encode_json(payload)
        pos = self._keep(kind, event, body, conn=conn)
        found = seat is not None and seat.member.client.hears(kind)
        self._push([seat] if seat is not None and found else [], event, body, pos, droppable=drop_if_slow)
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

    @property
    def attended(self) -> bool:
        """Is somebody here, or may somebody come back?"""
        return bool(self._seats) or self._gone.expects()

    def _is_heard(self, kind: GatewayEventKind) -> bool:
        """To somebody; else the event only takes up its position."""
        if self.attended:
            return True
        self.ring.skip(int(kind.kept))
        return False

    def _keep(
        self, kind: GatewayEventKind, event: str, body: bytes, *, topics: frozenset[str] | None = None, conn: str = ""
    ) -> int | None:
        """For those who may ask for what they missed. Its position; None: it has none."""
        self.ring.forget_before(self._now() - PAST_SECONDS)
        if not kind.kept:
            return None
        if self._gone.expects() or any(seat.positions for seat in self._seats.values()):
            return self.ring.add(event, body, topics=topics, conn=conn, at=self._now())
        self.ring.skip(1)
        return self.ring.pos

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
        if not seat.member.client.hears(EVENTS[past.event]):
            return False
        if past.conn:
            return past.conn in seat.names
        return past.topics is None or not past.topics.isdisjoint(seat.topics)


def _owner(client: ConnectedClient) -> tuple[str, str]:
    return client.caller.id, client.caller.device
