"""What runs here, shown to the clients of other nodes while it happens, and theirs to ours.

The calls of `RunFollower` travel as small messages, text at most every 150 ms. Those of one run are numbered: who
misses one, or comes in the middle, asks, and is told all that was said so far. Nothing is sent while nobody elsewhere
watches. All of it may be lost: what ended and how is in the store, whose news (`peers.py`) end what this began.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from palinurus.clock import Clock
from palinurus.core.types.events import AgentEnd, AgentStart, MessageStart, MessageUpdate, RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.inbox.feed import RunFeeds
from palinurus.store.news import NodeBus
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

EVERY = 0.15  # seconds between two pieces of a run's text
LOOK = 1.0  # seconds between two looks whether somebody watches here
HELLO = 5.0  # seconds after which a node says again that somebody watches there
FORGET = 3 * HELLO  # seconds after which a node that says nothing has nobody who watches
PATIENCE = 1.0  # seconds that the end of a run may come after the news of it; and between two questions
LARGEST = 1_000_000  # bytes of a message: what is larger is not shown elsewhere, the store has it


class _Message(msgspec.Struct, frozen=True, array_like=True):
    pass


class RelayHello(_Message, frozen=True, tag="hello"):
    """`watches`: somebody there sees what others run. `anew`: and has seen nothing yet."""

    watches: bool
    anew: bool = False


class RelayCame(_Message, frozen=True, tag="came"):
    item: str
    session: str
    inbound: Inbound


class RelayBegan(_Message, frozen=True, tag="began"):
    """With it the run's messages are numbered from 0."""

    item: str
    session: str
    inbound: Inbound


class RelayShown(_Message, frozen=True, tag="shown"):
    """None: it was too large."""

    item: str
    n: int
    event: RunEvent | None


class RelayMerged(_Message, frozen=True, tag="merged"):
    item: str
    n: int
    guest: str


class RelayEnded(_Message, frozen=True, tag="ended"):
    item: str
    n: int


class RelayQuestion(_Message, frozen=True, tag="ask"):
    item: str


class RelayAnswer(_Message, frozen=True, tag="state"):
    """A run as it is after its message `n`. `turns`: the text of each answer of the model so far."""

    item: str
    n: int
    session: str
    inbound: Inbound
    start: AgentStart | None
    turns: tuple[str, ...]


_Said: TypeAlias = (
    RelayHello | RelayCame | RelayBegan | RelayShown | RelayMerged | RelayEnded | RelayQuestion | RelayAnswer
)


class _RunText:
    """The text of a run as its events tell it, one string for each answer of the model."""

    def __init__(self) -> None:
        self.n = 0
        self.start: AgentStart | None = None
        self.ended = False
        self._turns: list[list[str]] = []

    def feed(self, event: RunEvent) -> None:
        kind = type(event)
        if kind is MessageUpdate:
            assert isinstance(event, MessageUpdate)
            if event.kind == "text":
                if not self._turns:
                    self._turns.append([])
                self._turns[-1].append(event.delta)
        elif isinstance(event, AgentStart):
            self.start, self._turns = event, []
        elif isinstance(event, MessageStart) and event.message is None:
            self._turns.append([])
        elif isinstance(event, AgentEnd):
            self.ended = True

    def turns(self) -> tuple[str, ...]:
        return tuple(map("".join, self._turns))


class _Own(_RunText):
    """A run of this node. `waiting`: text that was not sent yet."""

    def __init__(self, session: str, inbound: Inbound) -> None:
        super().__init__()
        self.session = session
        self.inbound = inbound
        self.waiting: list[MessageUpdate] = []
        self.timer: asyncio.TimerHandle | None = None


class _Theirs(_RunText):
    """A run of another node. `asked`: when its state was last asked for."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self.node = node
        self.asked = -PATIENCE
        self.over = asyncio.Event()


class RunRelay:
    """Implements `inbox.feed.RunFollower` for what this node does."""

    def __init__(self, bus: NodeBus, feeds: RunFeeds, clock: Clock) -> None:
        self._bus = bus
        self._feeds = feeds
        self._clock = clock
        self._own: dict[str, _Own] = {}
        self._theirs: dict[str, _Theirs] = {}
        self._watchers: dict[str, float] = {}  # nodes where somebody watches: until when that is believed
        self._watches: bool | None = None  # what we said last of ourselves
        self._decoder: msgspec.json.Decoder[_Said] = msgspec.json.Decoder(_Said)
        self._tasks = TaskSet("what other nodes run")

    def start(self) -> None:
        self._feeds.follow(self)
        self._bus.listen(self._hear, self._come_anew)
        self._tasks.start(self._look())

    async def close(self) -> None:
        self._watches = False
        self._send(RelayHello(False))
        await self._tasks.close()
        await self._bus.close()

    # --- who watches -------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        said = self._clock.monotonic()
        while True:
            watched, now = self._feeds.is_watched(), self._clock.monotonic()
            if watched != self._watches or (watched and now - said >= HELLO):
                self._send(RelayHello(watched, anew=watched and not self._watches))
                self._watches, said = watched, now
            self._watchers = {node: until for node, until in self._watchers.items() if until > now}
            await self._clock.sleep(LOOK)

    def _come_anew(self) -> None:
        """The line was cut: what was said meanwhile is lost."""
        if self._watches:
            self._send(RelayHello(True, anew=True))

    # --- what runs here ----------------------------------------------------------------------------------------------

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        if self._watchers:
            self._send(RelayCame(item, session, inbound))

    def on_started(self, item: str, session: str, inbound: Inbound) -> None:
        if (before := self._theirs.pop(item, None)) is not None:
            before.over.set()
        self._own[item] = _Own(session, inbound)
        if self._watchers:
            self._send(RelayBegan(item, session, inbound))

    def on_event(self, item: str, event: RunEvent) -> None:
        own = self._own.get(item)
        if own is None:
            return
        own.feed(event)
        if not self._watchers:
            own.waiting.clear()
        elif isinstance(event, MessageUpdate) and event.kind != "status":
            own.waiting.append(event)
            if own.timer is None:
                self._flush(item)
        else:
            self._send_text(item, own)
            self._number(item, own, lambda n: RelayShown(item, n, event))

    def on_merged(self, item: str, into: str) -> None:
        if (own := self._own.get(into)) is not None and self._watchers:
            self._send_text(into, own)
            self._number(into, own, lambda n: RelayMerged(into, n, item))

    def on_ended(self, item: str) -> None:
        own = self._own.pop(item, None)
        if own is None:
            return
        if self._watchers:
            self._send_text(item, own)
            self._number(item, own, lambda n: RelayEnded(item, n))
        if own.timer is not None:
            own.timer.cancel()

    def _flush(self, item: str) -> None:
        own = self._own.get(item)
        if own is not None:
            sent = self._send_text(item, own)
            again = asyncio.get_running_loop().call_later
            own.timer = again(EVERY, self._flush, item) if sent else None

    def _send_text(self, item: str, own: _Own) -> bool:
        """What waits, pieces of one kind together."""
        waiting, own.waiting = own.waiting, []
        while waiting:
            kind = waiting[0].kind
            end = next((at for at, one in enumerate(waiting) if one.kind != kind), len(waiting))
            event = MessageUpdate("".join(one.delta for one in waiting[:end]), kind)
            waiting = waiting[end:]
            self._number(item, own, lambda n, event=event: RelayShown(item, n, event))  # type: ignore[misc]
            if not waiting:
                return True
        return False

    def _number(self, item: str, own: _Own, make: Callable[[int], _Message]) -> None:
        own.n += 1
        if not self._send(make(own.n)):
            self._send(RelayShown(item, own.n, None))

    def _send(self, said: _Message) -> bool:
        data = msgspec.json.encode(said)
        if len(data) <= LARGEST:
            self._bus.send(data)
        return len(data) <= LARGEST

    def _answer(self, item: str) -> None:
        """It has a number, too: who heard nothing for a while learns from it that something is missing."""
        if (own := self._own.get(item)) is not None:
            self._send_text(item, own)
            state = (own.session, own.inbound, own.start, own.turns())
            self._number(item, own, lambda n: RelayAnswer(item, n, *state))

    # --- what runs elsewhere -----------------------------------------------------------------------------------------

    def _hear(self, node: str, data: bytes) -> None:
        try:
            said = self._decoder.decode(data)
        except msgspec.DecodeError:
            return  # of another version
        if isinstance(said, RelayHello):
            self._heard_hello(node, said)
        elif isinstance(said, RelayQuestion):
            self._answer(said.item)
        elif said.item not in self._own and self._feeds.is_watched():
            _HEARD[type(said)](self, node, said)

    def _heard_hello(self, node: str, said: RelayHello) -> None:
        known = self._watchers.pop(node, None) is not None
        if said.watches:
            self._watchers[node] = self._clock.monotonic() + FORGET
            if said.anew or not known:
                for item in tuple(self._own):
                    self._answer(item)

    def _heard_came(self, node: str, said: RelayCame) -> None:
        for follower in self._feeds.list_wide():
            follower.on_accepted(said.item, said.session, said.inbound)

    def _heard_began(self, node: str, said: RelayBegan) -> None:
        self._theirs[said.item] = _Theirs(node)
        for follower in self._feeds.list_wide():
            follower.on_started(said.item, said.session, said.inbound)

    def _heard_shown(self, node: str, said: RelayShown) -> None:
        theirs = self._next(node, said.item, said.n)
        if theirs is not None and said.event is not None:
            self._show(said.item, theirs, said.event)

    def _heard_merged(self, node: str, said: RelayMerged) -> None:
        if self._next(node, said.item, said.n) is not None:
            self._feeds.merge(said.guest, said.item)

    def _heard_ended(self, node: str, said: RelayEnded) -> None:
        """If its last event was seen all is told; if not (given back, or something was lost) the store's news tell."""
        theirs = self._theirs.pop(said.item, None)
        if theirs is not None:
            if theirs.ended:
                self._feeds.report_ended(said.item)
            theirs.over.set()

    def _heard_answer(self, node: str, said: RelayAnswer) -> None:
        """Show what was missed of its text."""
        theirs = self._theirs.get(said.item)
        if theirs is None or theirs.node != node:
            self._heard_began(node, RelayBegan(said.item, said.session, said.inbound))
            theirs = self._theirs[said.item]
        elif said.n <= theirs.n:
            return  # somebody else asked
        theirs.n = said.n
        if theirs.start is None and said.start is not None:
            self._show(said.item, theirs, said.start)
        known = theirs.turns()
        for at, text in enumerate(said.turns):
            if at >= len(known):
                self._show(said.item, theirs, MessageStart())
            rest = text[len(known[at]) :] if at < len(known) else text
            if rest and at >= len(known) - 1:  # an answer that another followed is whole in the transcript
                self._show(said.item, theirs, MessageUpdate(rest))

    def _next(self, node: str, item: str, n: int) -> _Theirs | None:
        """The run, if this is what comes next of it. If something is missing, ask."""
        theirs = self._theirs.get(item)
        if theirs is None:
            theirs = self._theirs[item] = _Theirs("")
        if theirs.node == node and n == theirs.n + 1:
            theirs.n = n
            return theirs
        now = self._clock.monotonic()
        if (theirs.node != node or n > theirs.n) and now - theirs.asked >= PATIENCE:
            theirs.asked = now
            self._send(RelayQuestion(item))
        return None

    def _show(self, item: str, theirs: _Theirs, event: RunEvent) -> None:
        theirs.feed(event)
        self._feeds.show_foreign(item, event)

    def follows(self, item: str) -> bool:
        """Is something known here of how another node runs it?"""
        return item in self._theirs

    async def wait_ended(self, item: str) -> bool:
        """The store says that it ended: wait until that was shown here, too. False: it will not be."""
        theirs = self._theirs.get(item)
        if theirs is None:
            return True
        try:
            async with asyncio.timeout(PATIENCE):
                await theirs.over.wait()
        except TimeoutError:
            self._theirs.pop(item, None)
        return theirs.over.is_set() and theirs.ended


_HEARD: dict[type, Callable[[RunRelay, str, Any], None]] = {
    RelayCame: RunRelay._heard_came,
    RelayBegan: RunRelay._heard_began,
    RelayShown: RunRelay._heard_shown,
    RelayMerged: RunRelay._heard_merged,
    RelayEnded: RunRelay._heard_ended,
    RelayAnswer: RunRelay._heard_answer,
}
