"""Runs shown on other nodes, over a line that may lose anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from palinurus.core.types.events import AgentEnd, AgentStart, MessageEnd, MessageStart, MessageUpdate, RunEvent, ToolEnd
from palinurus.core.types.messages import AssistantMessage, TextBlock, ToolResult
from palinurus.core.types.usage import TokenUsage
from palinurus.inbox import relay
from palinurus.inbox.feed import RunFeeds
from palinurus.inbox.relay import RunRelay
from palinurus.testing.clock import FakeClock, run_ready_tasks
from support import inbound

START = AgentStart("r", "s", "x/y", 1)
END = AgentEnd((AssistantMessage((TextBlock("one two"),)),), "stop", TokenUsage())
KEY = "agent:main:main"


class Line:
    """Of one node. `lost`: how many messages the others do not get from now on."""

    def __init__(self, name: str, others: list[Line]) -> None:
        self.name = name
        self.others = others
        self.sent: list[bytes] = []
        self.lost = 0
        self.closed = False
        others.append(self)

    def listen(self, heard: Callable[[str, bytes], None], again: Callable[[], None]) -> None:
        self.heard, self.again = heard, again

    def send(self, said: bytes) -> None:
        self.sent.append(said)
        self.lost -= 1
        for line in self.others if self.lost < 0 else ():
            if line is not self:
                line.heard(self.name, said)

    async def close(self) -> None:
        self.closed = True


class Face:
    """A follower that writes down what it sees."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def on_accepted(self, item: str, session: str, inbound: object) -> None:
        self.seen.append(("came", item, session))

    def on_started(self, item: str, session: str, inbound: object) -> None:
        self.seen.append(("began", item, session))

    def on_event(self, item: str, event: RunEvent) -> None:
        self.seen.append(event)

    def on_merged(self, item: str, into: str) -> None:
        self.seen.append(("merged", item, into))

    def on_ended(self, item: str) -> None:
        self.seen.append(("ended", item))

    @property
    def text(self) -> str:
        return "".join(one.delta for one in self.seen if isinstance(one, MessageUpdate))


class Node:
    def __init__(self, name: str, lines: list[Line], clock: FakeClock) -> None:
        self.line, self.feeds, self.face, self.watched = Line(name, lines), RunFeeds(), Face(), False
        self.relay = RunRelay(self.line, self.feeds, clock)
        self.feeds.follow(self.face, lambda: self.watched)
        self.relay.start()

    def run(self, *events: RunEvent, item: str = "i", begin: bool = True) -> None:
        if begin:
            self.feeds.report_started(item, KEY, inbound("hi"))
        for event in events:
            self.feeds.show(item, event)


class Pair:
    def __init__(self) -> None:
        self.clock = FakeClock()
        lines: list[Line] = []
        self.a, self.b = Node("a", lines, self.clock), Node("b", lines, self.clock)

    async def watch(self, watched: bool = True) -> None:
        """Somebody is on B."""
        self.b.watched = watched
        await self.pause(relay.LOOK)

    async def pause(self, seconds: float) -> None:
        await run_ready_tasks()
        await self.clock.advance(seconds)
        await run_ready_tasks()


@pytest.fixture
async def pair() -> Pair:
    made = Pair()
    await run_ready_tasks()
    return made


async def test_the_five_calls_arrive_as_they_were_made(pair: Pair) -> None:
    await pair.watch()
    result = ToolEnd("c", "ls", ToolResult("c", "ls", (TextBlock("x"),)), is_error=False, took_ms=3)
    whole = MessageEnd(AssistantMessage((TextBlock("one two"),)))
    pair.a.feeds.report_accepted("i", KEY, inbound("hi"))
    pair.a.run(START, MessageStart(), MessageUpdate("one"), MessageUpdate("two"), whole, result)
    pair.a.feeds.merge("g", "i")
    pair.a.feeds.show("i", END)
    pair.a.feeds.report_ended("i")
    assert pair.b.face.seen == pair.a.face.seen
    assert not pair.b.relay.follows("i")


async def test_text_that_comes_quickly_travels_together(pair: Pair) -> None:
    await pair.watch()
    pair.a.run(START, MessageStart(), *(MessageUpdate(word) for word in "abcdef"), MessageUpdate("?", "thinking"))
    pair.a.run(MessageUpdate("g"), MessageEnd(AssistantMessage(())), begin=False)
    assert pair.b.face.seen[3:-1] == [
        MessageUpdate("a"), MessageUpdate("bcdef"), MessageUpdate("?", "thinking"), MessageUpdate("g"),
    ]  # fmt: skip


async def test_nothing_travels_while_nobody_watches_and_a_later_one_learns_all(pair: Pair) -> None:
    pair.a.run(START, MessageStart(), MessageUpdate("before"), MessageStart(), MessageUpdate("one "))
    assert [said for said in pair.a.line.sent if b"hello" not in said] == []
    await pair.watch()
    pair.a.run(MessageUpdate("two"), begin=False)
    assert pair.b.face.seen == [
        ("began", "i", KEY), START, MessageStart(), MessageUpdate("before"), MessageStart(), MessageUpdate("one "),
        MessageUpdate("two"),
    ]  # fmt: skip
    await pair.watch(False)
    sent = len(pair.a.line.sent)
    pair.a.run(MessageUpdate("three"), MessageEnd(AssistantMessage(())), begin=False)
    assert len(pair.a.line.sent) == sent
    await pair.watch()
    assert pair.b.face.text.endswith("one twothree")


@pytest.mark.parametrize("lost", range(1, 8))
@pytest.mark.parametrize("after", range(5))
async def test_whatever_is_lost_the_text_is_whole_once_something_arrives(pair: Pair, lost: int, after: int) -> None:
    await pair.watch()
    events = [MessageUpdate(f"{n} ", "status") if n % 3 == 2 else MessageUpdate(f"{n} ") for n in range(12)]
    pair.a.run(START, MessageStart())
    for n, event in enumerate(events):
        if n == after:
            pair.a.line.lost = lost
        pair.a.run(event, begin=False)
        await pair.pause(relay.PATIENCE)
    pair.a.line.lost = 0
    pair.a.run(MessageUpdate("end", "status"), begin=False)
    said = "".join(one.delta for one in pair.b.face.seen if isinstance(one, MessageUpdate) and one.kind == "text")
    assert said == "".join(e.delta for e in events if e.kind == "text")


async def test_a_line_that_was_cut_learns_what_it_missed(pair: Pair) -> None:
    await pair.watch()
    pair.a.run(START, MessageStart(), MessageUpdate("one "))
    pair.a.line.lost = 100
    pair.a.run(MessageUpdate("two "), MessageUpdate("?", "status"), begin=False)
    pair.a.line.lost = 0
    pair.b.line.again()
    assert pair.b.face.text == "one two "


async def test_a_node_that_says_nothing_any_more_has_nobody_who_watches(pair: Pair) -> None:
    await pair.watch()
    pair.b.line.lost = 1000
    for _ in range(int(relay.FORGET / relay.LOOK) + 2):
        await pair.pause(relay.LOOK)
    sent = len(pair.a.line.sent)
    pair.a.run(START)
    assert len(pair.a.line.sent) == sent


async def test_what_is_too_large_is_left_out_and_nothing_is_missed_for_it(pair: Pair) -> None:
    await pair.watch()
    huge = MessageEnd(AssistantMessage((TextBlock("x" * (relay.LARGEST + 1)),)))
    pair.a.run(START, huge, END)
    pair.a.feeds.report_ended("i")
    assert pair.b.face.seen == [("began", "i", KEY), START, END, ("ended", "i")]


async def test_a_run_that_was_given_back_has_not_ended_for_its_watchers(pair: Pair) -> None:
    await pair.watch()
    seen: list[RunEvent] = []
    pair.b.feeds.watch("i", seen.append)
    pair.a.run(START, MessageUpdate("one"))
    pair.a.feeds.report_ended("i")  # no last event: it waits again
    assert ("ended", "i") not in pair.b.face.seen
    pair.a.run(START, MessageUpdate("again"), END)
    assert seen == [START, MessageUpdate("one"), START, MessageUpdate("again"), END]


async def test_what_is_run_here_is_not_heard_from_others(pair: Pair) -> None:
    """A node that was thought dead still speaks."""
    await pair.watch()
    pair.a.run(START, MessageUpdate("old"))
    pair.b.run(START, MessageUpdate("new"))
    before = len(pair.b.face.seen)
    pair.a.run(MessageUpdate("?", "status"), END, begin=False)
    assert len(pair.b.face.seen) == before


async def test_the_end_in_the_store_waits_a_moment_for_the_one_that_is_shown(pair: Pair) -> None:
    await pair.watch()
    assert await pair.b.relay.wait_ended("unknown")
    pair.a.run(START)
    assert not await pair.b.relay.wait_ended("i") and not pair.b.relay.follows("i")


async def test_what_cannot_be_read_is_left_alone(pair: Pair) -> None:
    await pair.watch()
    pair.b.line.heard("a", b'["of another version", 1]')
    assert pair.b.face.seen == []
    await pair.a.relay.close()
    assert pair.a.line.closed
