"""The desk without a screen: a wire that is a script, so that the order of things is exact."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from palinurus.cli.tui.session import ANEW, ScreenChange, ScreenSession
from palinurus.errors import BadRequest, GatewayUnreachable, Unauthorized
from palinurus.testing.clock import FakeClock, run_ready_tasks

KEY = "agent:main:main"


class Line:
    """Answers from `answers`: a value, an exception to raise, or a function of the params."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.answers = answers
        self.calls: list[tuple[str, Any]] = []
        self.cut = asyncio.Event()

    async def call(self, method: str, params: Any = None) -> Any:
        self.calls.append((method, params))
        found = self.answers.get(method, {})
        found = found(params) if isinstance(found, Callable) else found  # type: ignore[arg-type]
        if isinstance(found, Exception):
            raise found
        return found

    async def wait_closed(self) -> int | None:
        await self.cut.wait()
        return None

    async def close(self) -> None:
        self.cut.set()

    def named(self, method: str) -> list[Any]:
        return [params for name, params in self.calls if name == method]


def answers(**changes: Any) -> dict[str, Any]:
    history = {"sessionKey": KEY, "messages": [], "sessionInfo": {"sessionId": "s1"}, "defaults": {}}
    return {
        "chat.history": history,
        "chat.metadata": {"models": [], "commands": []},
        "exec.approval.list": [],
        "plugin.approval.list": [],
        "sessions.usage": {"totals": {"totalCost": 0.5}},
        "sessions.describe": {"session": {"sessionId": "s1"}},
        **{name.replace("_", "."): value for name, value in changes.items()},
    }


class House:
    where = "here"

    def __init__(self, *lines: Line | Exception) -> None:
        self.lines = list(lines)

    async def open(self) -> Line:
        found = self.lines.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def close(self) -> None: ...


def desk(house: House, told: list[ScreenChange], clock: FakeClock) -> ScreenSession:
    async def enter() -> House:
        return house

    async def tell(news: ScreenChange) -> None:
        told.append(news)

    return ScreenSession(enter, KEY, "", clock, tell)


async def test_a_first_connection_that_fails_is_the_end() -> None:
    one = desk(House(GatewayUnreachable("nobody")), [], FakeClock())
    with pytest.raises(GatewayUnreachable):
        await one.live()


async def test_a_message_is_sent_again_under_its_own_name_when_the_line_breaks() -> None:
    clock, told = FakeClock(), list[ScreenChange]()
    first = Line(answers(chat_send=GatewayUnreachable("cut")))
    second = Line(answers(chat_send={"runId": "x", "status": "started"}))
    one = desk(House(first, GatewayUnreachable("still starting"), second), told, clock)
    task = asyncio.ensure_future(one.live())
    await run_ready_tasks()
    await one.send("hello")
    await run_ready_tasks()
    first.cut.set()
    for _ in range(20):
        await clock.advance(1)
        await run_ready_tasks()
    (again,) = second.named("chat.send")
    assert again == first.named("chat.send")[0] and again["message"] == "hello"
    assert [b.state for news in told for b in news.blocks if b.kind == "user"][-1] == "waiting"
    assert one.line == "" and one.cost == 0.5
    task.cancel()
    await one.close()


async def test_a_refusal_is_shown_and_the_message_marked() -> None:
    told = list[ScreenChange]()
    line = Line(answers(chat_send=BadRequest("the queue is full")))
    one = desk(House(line), told, FakeClock())
    task = asyncio.ensure_future(one.live())
    await run_ready_tasks()
    await one.send("hello")
    await run_ready_tasks()
    shown = [(b.kind, b.state, b.text) for b in told[-1].blocks]
    assert shown == [("user", "failed", "hello"), ("error", "", "the queue is full")]
    task.cancel()
    await one.close()


async def test_what_happens_while_the_history_is_read_is_read_again_not_drawn_twice() -> None:
    line = Line({})
    said = {"runId": "r", "sessionKey": KEY, "state": "final", "message": {"content": [{"text": "late"}]}}

    def history(params: Any) -> Any:
        if len(line.named("chat.history")) == 1:
            line.events.put_nowait({"event": "chat", "payload": said})
        return answers()["chat.history"]

    line.answers = answers(chat_history=history)
    told = list[ScreenChange]()
    one = desk(House(line), told, FakeClock())
    task = asyncio.ensure_future(one.live())
    await run_ready_tasks()
    assert len(line.named("chat.history")) == 2
    assert not [b for news in told for b in news.blocks]
    task.cancel()
    await one.close()


async def test_a_run_joined_in_its_middle_is_read_from_disk_at_its_end() -> None:
    line = Line(answers())
    line.answers["chat.history"] = {**line.answers["chat.history"], "inFlightRun": {"runId": "r", "text": "so"}}
    one = desk(House(line), [], FakeClock())
    task = asyncio.ensure_future(one.live())
    await run_ready_tasks()
    assert one.talk.run == "r"
    line.answers = answers()
    line.events.put_nowait({"event": "chat", "payload": {"runId": "r", "sessionKey": KEY, "state": "final"}})
    await run_ready_tasks()
    assert len(line.named("chat.history")) == 2 and one.talk.run == ""
    task.cancel()
    await one.close()


async def test_a_session_that_begins_anew_is_read_anew() -> None:
    line = Line(answers())
    one = desk(House(line), [], FakeClock())
    task = asyncio.ensure_future(one.live())
    await run_ready_tasks()
    fresh = {"sessionKey": KEY, "session": {"sessionId": "s2"}}
    line.answers["chat.history"] = {**line.answers["chat.history"], "sessionInfo": {"sessionId": "s2"}}
    for _ in range(2):
        line.events.put_nowait({"event": "sessions.changed", "payload": fresh})
        await run_ready_tasks()
    assert len(line.named("chat.history")) == 2
    task.cancel()
    await one.close()


async def test_a_look_that_overtakes_the_news_of_a_new_session_leaves_it_to_say_why() -> None:
    line = Line(answers(sessions_describe={"session": {"sessionId": "s2"}}))
    told: list[ScreenChange] = []
    one = desk(House(line), told, FakeClock())
    task = asyncio.ensure_future(one.live())
    await run_ready_tasks()
    await one.send("hi")
    final = {"runId": "r", "sessionKey": KEY, "state": "final"}  # at the end of a run the screen looks
    line.events.put_nowait({"event": "chat", "payload": final})
    line.answers["chat.history"] = {**line.answers["chat.history"], "sessionInfo": {"sessionId": "s2"}}
    news = {"sessionKey": KEY, "phase": "start", "session": {"sessionId": "s2"}}
    line.events.put_nowait({"event": "sessions.changed", "payload": news})
    await run_ready_tasks()
    assert [block.text for change in told for block in change.blocks or () if block.kind == "note"] == [ANEW]
    await one.read_again()  # as at the end of a run that was under way when it was read
    assert told[-2].fresh and told[-2].blocks[0].text == ANEW
    task.cancel()
    await one.close()


async def test_a_gateway_that_comes_back_and_says_no_says_why_once() -> None:
    clock, told, first = FakeClock(), list[ScreenChange](), Line(answers())
    no = Unauthorized("the token is another")
    one = desk(House(first, GatewayUnreachable("away"), no, no, Line(answers())), told, clock)
    task = asyncio.ensure_future(one.live())
    await run_ready_tasks()
    first.cut.set()
    for _ in range(20):
        await clock.advance(1)
        await run_ready_tasks()
    assert [b.text for news in told for b in news.blocks] == ["the token is another"] and one.line == ""
    task.cancel()
    await one.close()
