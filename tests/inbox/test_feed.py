"""Watchers of a message."""

from __future__ import annotations

from palinurus.core.types.events import Event, MessageUpdate
from palinurus.inbox.feed import Feeds


async def test_watchers_follow_a_message_into_the_run_it_became_part_of() -> None:
    feeds = Feeds()
    seen: list[Event] = []
    stop = feeds.watch("b", seen.append)
    end = feeds.end("b")
    sinks = feeds.sinks("a")
    feeds.merge("b", "a")
    for sink in sinks:
        sink(MessageUpdate("x"))
    assert seen == [MessageUpdate("x")]
    assert not end.done()
    feeds.ended("a")
    await end
    stop()  # after the end: nothing to undo, nothing breaks


async def test_unwatching() -> None:
    feeds = Feeds()
    seen: list[Event] = []
    feeds.watch("a", seen.append)()
    assert feeds.sinks("a") == []
