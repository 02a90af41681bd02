"""Watchers of a message."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from palinurus.core.types.events import MessageUpdate, RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.inbox.feed import RunFeeds
from palinurus.store.port import InboxRow
from support import inbound


async def test_watchers_follow_a_message_into_the_run_it_became_part_of() -> None:
    feeds = RunFeeds()
    seen: list[RunEvent] = []
    stop = feeds.watch("b", seen.append)
    end = feeds.end("b")
    feeds.merge("b", "a")
    feeds.show("a", MessageUpdate("x"))
    feeds.show("b", MessageUpdate("nobody"))
    assert seen == [MessageUpdate("x")]
    assert not end.done()
    feeds.report_ended("a", MessageUpdate("last"))
    await end
    assert seen[-1] == MessageUpdate("last")
    stop()  # after the end: nothing to undo, nothing breaks


async def test_unwatching_and_watching_again() -> None:
    feeds = RunFeeds()
    seen: list[RunEvent] = []
    feeds.watch("a", seen.append)()
    feeds.show("a", MessageUpdate("x"))
    feeds.watch("a", seen.append)
    feeds.show("a", MessageUpdate("y"))
    assert seen == [MessageUpdate("y")]


async def test_a_watcher_may_leave_while_it_is_shown_something() -> None:
    feeds = RunFeeds()
    seen: list[str] = []

    def once(event: RunEvent) -> None:
        seen.append("first")
        leave()

    leave = feeds.watch("a", once)
    feeds.watch("a", lambda event: seen.append("second"))
    feeds.show("a", MessageUpdate("x"))
    assert seen == ["first", "second"]


class Quiet:
    """Of no interest to it: events."""

    on_event = None


async def test_who_is_not_interested_in_events_gets_none_and_may_leave() -> None:
    feeds = RunFeeds()
    leave = feeds.follow(cast(Any, Quiet()))
    feeds.show("a", MessageUpdate("x"))
    leave()
    feeds.show("a", MessageUpdate("y"))


async def test_who_is_stopped_while_waiting_for_an_end_is_forgotten() -> None:
    feeds = RunFeeds()

    class Running:
        async def item(self, item: str) -> Any:
            return cast(Any, SimpleNamespace(state="running"))

    waiting = asyncio.ensure_future(feeds.outcome("a", cast(Any, Running())))
    await asyncio.sleep(0)
    assert feeds.is_awaited("a")
    waiting.cancel()
    await asyncio.wait((waiting,))
    assert waiting.cancelled() and not feeds.is_awaited("a")


async def test_who_waits_no_more_is_forgotten() -> None:
    feeds = RunFeeds()
    one, other = feeds.end("a"), feeds.end("a")
    feeds.forget("a", one)
    feeds.merge("a", "b")
    feeds.forget("a", other)  # it moved: found all the same
    feeds.report_ended("b")
    await asyncio.sleep(0)
    assert not one.done() and not other.done() and not feeds._ends


async def test_a_follower_sees_everything_until_it_stops() -> None:
    feeds, notes = RunFeeds(), Notes()
    stop = feeds.follow(notes)
    feeds.report_accepted("a", "agent:main:main", inbound("hi"))
    feeds.report_started("a", "agent:main:main", inbound("hi"))
    feeds.show("a", MessageUpdate("x"))
    feeds.merge("b", "a")
    feeds.report_ended("a", MessageUpdate("last"))
    stop()
    feeds.show("a", MessageUpdate("unseen"))
    assert notes.seen == ["came a hi", "began a hi", "a x", "b into a", "a last", "ended a", "ended b"]


class Notes:
    """A follower that writes down what it sees."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        self.seen.append(f"came {item} {inbound.text}")

    def on_started(self, item: str, session: str, inbound: Inbound) -> None:
        self.seen.append(f"began {item} {inbound.text}")

    def on_event(self, item: str, event: RunEvent) -> None:
        assert isinstance(event, MessageUpdate)
        self.seen.append(f"{item} {event.delta}")

    def on_merged(self, item: str, into: str) -> None:
        self.seen.append(f"{item} into {into}")

    def on_ended(self, item: str) -> None:
        self.seen.append(f"ended {item}")


async def test_nothing_is_kept_of_messages_that_have_ended() -> None:
    """One entry for each steered message stayed for good once."""
    feeds = RunFeeds()
    for item in ("a", "b"):
        feeds.report_accepted(item, "agent:main:main", inbound("hi"))
    feeds.report_started("a", "agent:main:main", inbound("hi"))
    feeds.merge("b", "a")
    feeds.watch("b", lambda event: None)()
    assert feeds.is_awaited("a") and feeds.is_awaited("b")
    feeds.report_ended("a")
    assert not feeds.is_awaited("a") and not feeds.is_awaited("b")
    assert not any(vars(feeds).values())


async def test_a_message_that_became_part_of_a_run_ends_with_it_for_followers_too() -> None:
    feeds, ended = RunFeeds(), list[str]()

    class Ends:
        def on_ended(self, item: str) -> None:
            ended.append(item)

        def __getattr__(self, name: str) -> object:
            return lambda *args: None

    feeds.follow(Ends())  # type: ignore[arg-type]
    feeds.merge("b", "a")
    feeds.merge("c", "a")
    assert ended == []
    feeds.report_ended("a")
    feeds.report_ended("a")
    assert ended == ["a", "b", "c", "a"] and not feeds._guests


class Rows:
    """A store that knows one message."""

    def __init__(self, state: str) -> None:
        self.state = state

    async def item(self, ident: str) -> Any:
        return InboxRow(ident, ident, "s", "main", b"", 0, cast("Any", self.state), None, "", attempts=1)


async def test_who_has_waited_long_enough_is_told_how_it_stands_and_forgotten() -> None:
    feeds = RunFeeds()
    for timeout in (0.0, 0.01):
        row = await feeds.outcome("a", cast("Any", Rows("queued")), timeout)
        assert row is not None and row.state == "queued" and not feeds.is_awaited("a")
    ended = asyncio.ensure_future(feeds.outcome("a", cast("Any", rows := Rows("running"))))
    await asyncio.sleep(0)
    assert feeds.is_awaited("a")
    rows.state = "done"
    feeds.report_ended("a")
    row = await ended
    assert row is not None and row.state == "done" and not feeds.is_awaited("a")


async def test_who_only_watches_wants_to_hear_the_end() -> None:
    feeds = RunFeeds()
    leave = feeds.watch("m", lambda event: None)
    assert feeds.is_awaited("m") and not feeds.is_awaited("other")
    leave()
    assert not feeds.is_awaited("m")


class _Rows:
    """What the store says of each message, in order; the last for ever."""

    def __init__(self, **rows: list[InboxRow]) -> None:
        self.rows = rows
        self.asked: list[str] = []

    async def item(self, ident: str) -> InboxRow:
        self.asked.append(ident)
        found = self.rows[ident]
        return found.pop(0) if len(found) > 1 else found[0]


def _row(ident: str, state: str, into: str | None = None) -> InboxRow:
    return InboxRow(ident, ident, "s", "main", b"", 0, cast("Any", state), None, "", attempts=1, absorbed_by=into or "")


async def test_who_has_time_waits_for_the_end_and_follows_the_message_into_another_run() -> None:
    feeds = RunFeeds()
    rows = _Rows(a=[_row("a", "running"), _row("a", "absorbed", "b")], b=[_row("b", "running"), _row("b", "done")])
    waiting = asyncio.ensure_future(feeds.outcome("a", cast("Any", rows), 3600.0))
    for ident in ("a", "b"):
        while ident not in rows.asked:
            await asyncio.sleep(0.001)
        assert not waiting.done()
        feeds.report_ended(ident)
    async with asyncio.timeout(60):
        found = await waiting
    assert found is not None and (found.id, found.state) == ("b", "done") and rows.asked == ["a", "a", "b", "b"]


async def test_somebody_listens_while_there_is_a_watcher_or_a_follower_of_all_gateways_that_has_listeners() -> None:
    feeds, there = RunFeeds(), list[bool]()
    assert not feeds.is_watched()
    leave = feeds.watch("m", lambda event: None)
    assert feeds.is_watched()
    leave()
    ear: Any = Quiet()
    stop = feeds.follow(ear, everywhere=lambda: bool(there))
    assert not feeds.is_watched()
    there.append(True)
    assert feeds.is_watched()
    stop()
    assert not feeds.is_watched()
