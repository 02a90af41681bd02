"""messages.inbound: what is written in one go is one turn; nothing of it is lost, and nobody else waits for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, until
from palinurus.core.types.inbound import Sender
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, say
from support import inbound

NEVER = 10 * 60_000  # milliseconds: longer than any test
SOON = 2_000


def wait(**told: Any) -> dict[str, Any]:
    return {"messages": {"inbound": told}}


@pytest.mark.parametrize("told", [{"debounceMs": SOON}, {"debounceMs": 0, "byChannel": {"fake": SOON}}])
async def test_messages_of_one_go_are_one_turn(tmp_path: Path, told: dict[str, Any]) -> None:
    model, channel = ScriptedModel([say("to both"), say("to the third")]), FakeChannel()
    async with running(tmp_path / "h", model, channel, **wait(**told)) as app:
        (first,) = await channel.receive("buy milk", event="e1")
        (second,) = await channel.receive("and bread", event="e2")
        assert not model.requests  # both are on disk, and wait for quiet
        assert {(await app.wait(one)).outcome for one in (first, second)} <= {"answered", "merged"}
        await until(lambda: channel.texts == ["to both"], 60)
        (third,) = await channel.receive("thanks", event="e3")
        await app.wait(third)
        await until(lambda: len(channel.texts) == 2, 60)
    assert [message.text for message in model.requests[0].messages] == ["buy milk", "and bread"]
    assert len(model.requests) == 2


async def test_a_message_that_waits_for_quiet_outlives_its_program(tmp_path: Path) -> None:
    model, channel = ScriptedModel([say("milk it is")]), FakeChannel()
    async with running(tmp_path / "h", model, channel, **wait(debounceMs=NEVER)):
        await channel.receive("buy milk", event="e1")
    assert not model.requests
    again = FakeChannel()
    async with running(tmp_path / "h", model, again, **wait(debounceMs=NEVER)):
        await until(lambda: again.texts == ["milk it is"], 60)


@pytest.mark.parametrize("told", [{"debounceMs": NEVER, "byChannel": {"fake": 0}}, {"byChannel": {"other": NEVER}}])
async def test_other_channels_do_not_wait(tmp_path: Path, told: dict[str, Any]) -> None:
    model, channel = ScriptedModel([say("at once")]), FakeChannel()
    async with running(tmp_path / "h", model, channel, **wait(**told)) as app:
        (ident,) = await channel.receive("hello", event="e1")
        await app.wait(ident)
    assert len(model.requests) == 1


async def test_commands_and_who_waits_for_the_answer_are_not_kept_waiting(tmp_path: Path) -> None:
    model, channel = ScriptedModel([say("at once")]), FakeChannel(owner=True)
    async with running(tmp_path / "h", model, channel, **wait(debounceMs=NEVER)) as app:
        await channel.receive("hello", event="e1")
        await channel.receive("/status", event="e2")
        await until(lambda: len(channel.texts) == 1, 60)
        asked = inbound("hello", push=False, session="other", sender=Sender("me", owner=True))
        assert (await app.wait((await app.submit(asked)).id)).note == "at once"
    assert "Palinurus" in channel.texts[0] or "Model" in channel.texts[0]


async def test_a_stop_ends_what_waits_for_quiet(tmp_path: Path) -> None:
    model, channel = ScriptedModel([say("never")]), FakeChannel(owner=True)
    async with running(tmp_path / "h", model, channel, **wait(debounceMs=NEVER)) as app:
        (ident,) = await channel.receive("buy a boat", event="e1")
        await channel.receive("/stop", event="e2")
        assert (await app.wait(ident)).outcome == "aborted"
        await until(lambda: bool(channel.texts), 60)
    assert not model.requests
