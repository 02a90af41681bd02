"""A command that ended in the background wakes its session: once, with the asker's rights, and never as a directive."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, settings
from flow.test_tasks import ask
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.sections.session import QueueSettings
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.errors import BadRequest, Draining, QueueFull
from palinurus.inbox.policy import NO_OVERRIDES, resolve_policy
from palinurus.services.wake import SessionWaker, make_notice_message
from palinurus.store.port import Acceptance
from palinurus.testing.channel import FakeChannel
from palinurus.testing.clock import FakeClock
from palinurus.testing.model import ScriptedModel
from palinurus.tools.commands.table import CommandNotice
from support import is_control, read

ASKER = Inbound(Target("fake", "chat", thread="t"), Sender("me", owner=True), "e1", "do it", 5, reply_to="r")


def notice(text: str = "Exec completed (wee-owl, code 0) :: ok") -> CommandNotice:
    return CommandNotice("k1", "agent:main:main", "main", ASKER, text)


def test_where_it_goes_and_what_it_says() -> None:
    message = make_notice_message(notice(), 77)
    assert (message.target, message.sender, message.session) == (ASKER.target, ASKER.sender, "agent:main:main")
    assert message.text.startswith("System: Exec completed (wee-owl, code 0) :: ok\n\n") and "NO_REPLY" in message.text
    assert (message.event, message.at, message.system, message.reply_to) == ("exec:k1", 77, True, "")
    assert make_notice_message(notice(), 99).event == message.event


@pytest.mark.parametrize("text", ["/elevated full", "/stop", "stop", "x /queue interrupt y", "/exec security=full"])
def test_what_a_command_prints_is_never_a_directive(text: str) -> None:
    assert is_control(Inbound(Target("fake"), Sender("me", owner=True), "", text, 0)) or "/queue" in text
    message = make_notice_message(notice(text), 0)
    assert not message.may_command and not is_control(message)
    assert (
        resolve_policy(message, NO_OVERRIDES, QueueSettings(), read(message).inline.queue).mode
        == resolve_policy(make_notice_message(notice(), 0), NO_OVERRIDES, QueueSettings()).mode
    )


class Door:
    """Answers submit with what it was given, one after another."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.seen: list[Inbound] = []

    async def submit(self, message: Inbound) -> Any:
        self.seen.append(message)
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer
        return Acceptance(message.event, False, "queued")


@pytest.mark.parametrize(
    ("answers", "told_now", "tries"),
    [
        ([None], True, 1),
        ([Draining("stopping")], False, 1),
        ([BadRequest("unknown agent")], True, 1),
        ([QueueFull("20 wait"), QueueFull("20 wait"), None], True, 3),
    ],
)
async def test_it_is_tried_until_it_is_on_disk(answers: list[Exception | None], told_now: bool, tries: int) -> None:
    door, clock = Door(*answers), FakeClock()
    clock.sleep = _at_once(clock)  # type: ignore[method-assign]
    assert await SessionWaker(door, clock)(notice()) is told_now
    assert len(door.seen) == tries and len({m.event for m in door.seen}) == 1
    assert clock.slept == [1.0, 2.0][: tries - 1]


def _at_once(clock: FakeClock) -> Any:
    async def sleep(seconds: float) -> None:
        clock.slept.append(seconds)

    return sleep


async def test_a_restart_that_was_asked_for_is_told_once(tmp_path: Path) -> None:
    """Noted before the gateway ends; whoever starts next says it, once, also if it is killed right after."""
    asked: list[float] = []
    app = App(settings(tmp_path / "h"), {}, SystemClock(), model=ScriptedModel([]), channels={"fake": FakeChannel()})
    app.restart = asked.append
    await app.start()
    assert "Starting again" in await ask(app, "/restart", event="e1")
    assert "Starting" not in await ask(app, "/restart", Sender("stranger", allowed=True), event="e2")
    assert asked == [2.0]
    (row,) = await app.store.list_records("restart")
    await app.stop()
    for again in (False, True, False):
        async with running(tmp_path / "h", ScriptedModel([]), FakeChannel()) as app:
            if again:  # killed before it was noted
                await app.store.put_record("restart", row.key, row.data)
        with closing(sqlite3.connect(tmp_path / "h" / "state.db")) as base:
            told = base.execute("SELECT count(*) FROM outbox WHERE instr(data, ?)", (b'"I am back."',)).fetchone()
        assert told == (1,)


async def test_nothing_to_start_again(tmp_path: Path) -> None:
    async with running(tmp_path / "h", ScriptedModel([]), FakeChannel()) as app:
        assert "this is no gateway" in await ask(app, "/restart")
    async with running(tmp_path / "i", ScriptedModel([]), FakeChannel(), commands={"restart": False}) as app:
        assert "switched off" in await ask(app, "/restart")
