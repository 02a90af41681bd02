"""One server's life: connecting, losing it, coming back, giving up for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from palinurus.config.sections.mcp import McpServerSettings
from palinurus.core.types.tool import ToolFailure
from palinurus.testing.clock import FakeClock
from palinurus.tools.mcp.port import McpConnectionLost, McpMeans, McpProgress, McpServerFacts, McpToolListing, McpWatch
from palinurus.tools.mcp.server import McpServer

MEANS = McpMeans(None, None, None)  # type: ignore[arg-type]  # what is faked here starts nothing


class Other:
    """A server: what it lists, how it fails, who called."""

    def __init__(self) -> None:
        self.listed: tuple[McpToolListing, ...] = ({"name": "a"},)
        self.refuse: list[Exception] = []
        self.lose: list[McpConnectionLost] = []
        self.opened: list[str] = []
        self.calls = 0
        self.stuck = False
        self.watch = McpWatch()
        self.facts = McpServerFacts("o", "1", "v", False)

    @asynccontextmanager
    async def connect(self, server: Any, wire: str, means: Any, watch: McpWatch) -> AsyncIterator[Any]:
        self.opened.append(wire)
        self.watch = watch
        if self.refuse:
            raise self.refuse.pop(0)
        if self.stuck:
            await asyncio.Event().wait()
        yield self

    async def tools(self) -> tuple[McpToolListing, ...]:
        return self.listed

    async def call(self, name: str, arguments: Mapping[str, Any], timeout: float, show: McpProgress) -> dict[str, Any]:
        self.calls += 1
        if self.lose:
            raise self.lose.pop(0)
        async with asyncio.timeout(timeout):
            if name == "hang":
                await asyncio.Event().wait()
        return {"content": []}


def made(other: Other, clock: FakeClock | None = None, **changes: Any) -> McpServer:
    settings = McpServerSettings("srv", command="x", **changes)
    return McpServer(settings, lambda: other.connect, MEANS, clock or FakeClock())


async def use(server: McpServer, name: str = "a") -> dict[str, Any]:
    return await server.call(name, {}, lambda *_: None)


async def test_it_connects_when_it_is_called_and_stays_connected() -> None:
    other = Other()
    server = made(other)
    assert not server.connected
    await use(server)
    await use(server)
    assert server.connected and other.opened == ["stdio"] and server.listed == ({"name": "a"},)
    await server.close()
    assert not server.connected


async def test_a_call_that_was_cut_off_is_not_repeated_and_the_next_one_connects_again() -> None:
    other = Other()
    server = made(other)
    other.lose = [McpConnectionLost("closed")]
    with pytest.raises(ToolFailure, match="whether it was done is not known"):
        await use(server)
    assert other.calls == 1 and server.listed  # what models are told stays
    await use(server)
    assert other.opened == ["stdio", "stdio"] and other.calls == 2
    await server.close()


async def test_a_call_that_was_certainly_not_begun_is_repeated_once() -> None:
    other = Other()
    server = made(other)
    other.lose = [McpConnectionLost("forgotten", unsent=True)]
    await use(server)
    assert other.calls == 2 and len(other.opened) == 2
    other.lose = [McpConnectionLost("forgotten", unsent=True)] * 2
    with pytest.raises(ToolFailure, match="is not connected"):
        await use(server)
    await server.close()


async def test_one_that_ends_between_calls_comes_back() -> None:
    other = Other()
    server = made(other)
    await use(server)
    other.watch.gone()
    while server.connected:
        await asyncio.sleep(0)
    await use(server)
    assert other.opened == ["stdio", "stdio"]
    await server.close()


async def test_attempts_become_rarer() -> None:
    other, clock = Other(), FakeClock()
    server = made(other, clock)
    other.refuse = [OSError(1, "no")] * 20
    for _ in range(3):
        with pytest.raises(ToolFailure, match="is not connected: no"):
            await use(server)
    assert len(other.opened) == 2  # the first again at once, then not for a second
    await clock.advance(1.1)
    with pytest.raises(ToolFailure):
        await use(server)
    assert len(other.opened) == 3
    await clock.advance(1.1)
    with pytest.raises(ToolFailure):
        await use(server)
    assert len(other.opened) == 3
    await clock.advance(400)
    other.refuse.clear()
    await use(server)
    assert server.problem == ""
    await server.close()


async def test_one_that_hangs_at_the_start_is_given_up() -> None:
    other = Other()
    other.stuck = True
    server = made(other, start=0.02)
    with pytest.raises(ToolFailure, match=r"did not start within 0\.02 s"):
        await use(server)
    await server.close()


async def test_an_address_is_tried_in_both_ways_and_the_first_reason_is_told() -> None:
    other = Other()
    server = made(other, wires=("http", "sse"))
    other.refuse = [OSError(1, "first")]
    await use(server)
    assert other.opened == ["http", "sse"]
    await server.close()
    other = Other()
    server = made(other, wires=("http", "sse"))
    other.refuse = [OSError(1, "first"), OSError(1, "second")]
    with pytest.raises(ToolFailure, match="first"):
        await use(server)


async def test_a_call_has_its_time() -> None:
    server = made(Other(), timeout=0.02)
    with pytest.raises(ToolFailure, match=r"did not answer within 0\.02 s; the call was cancelled"):
        await use(server, "hang")
    await server.close()


async def test_a_changed_list_is_asked_for_at_the_next_run_only() -> None:
    other, told = Other(), list[int]()
    server = made(other)
    server.changed = lambda: told.append(1)
    await use(server)
    assert told == [1]
    other.listed = ({"name": "a"}, {"name": "b"})
    other.watch.changed()
    assert len(server.listed) == 1
    await server.refresh()
    assert len(server.listed) == 2 and told == [1, 1]
    other.watch.changed()
    await server.refresh()
    assert told == [1, 1]  # the same list is no change
    await server.close()


async def test_closing_ends_an_attempt_and_no_other_begins() -> None:
    other = Other()
    other.stuck = True
    server = made(other)
    server.wake()
    await asyncio.sleep(0.01)
    await server.close()
    server.wake()
    assert not server.starting
    with pytest.raises(ToolFailure):
        await use(server)
