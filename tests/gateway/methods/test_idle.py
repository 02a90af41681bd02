"""What changes a conversation in which nothing runs: nothing begins there meanwhile, or its lines would hang on what
is not there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.whole import Place, place
from palinurus.errors import DiskFull
from palinurus.store.port import InboxItem
from palinurus.testing.home import check_home
from palinurus.testing.model import ScriptedModel, StreamGate, hold_at, say
from support import inbound

KEY = "agent:main:dashboard:one"
BLINK = 0.2  # seconds in which a message that nobody keeps waiting is taken in


class Held:
    """Call number `at` of a store's change stands at a gate before it is made."""

    def __init__(self, place: Place, name: str) -> None:
        self._inner: Callable[..., Awaitable[Any]] = getattr(place.app.store, name)
        self.reached, self.go = asyncio.Event(), asyncio.Event()
        setattr(place.app.store, name, self)

    async def __call__(self, *args: Any, **more: Any) -> Any:
        self.reached.set()
        await self.go.wait()
        return await self._inner(*args, **more)


async def begin(here: Place, call: Awaitable[Any], held: Held) -> tuple[asyncio.Future[Any], asyncio.Future[Any]]:
    """A change that stands at its gate, and a message that comes just then."""
    change = asyncio.ensure_future(call)
    await asyncio.wait_for(held.reached.wait(), 60)
    sent = asyncio.ensure_future(here.call("chat.send", sessionKey=KEY, message="now", idempotencyKey="k2"))
    await asyncio.wait({sent}, timeout=BLINK)
    return change, sent


@pytest.mark.parametrize("method", ["sessions.rewind", "chat.inject"])
async def test_a_message_that_comes_while_the_conversation_is_changed_waits_for_that(
    tmp_path: Path, method: str
) -> None:
    """It hung on a line that was refused then: the model saw what nobody had said, and nobody saw it after a start."""
    gate = StreamGate()
    async with place(tmp_path / "h", ScriptedModel([say("one"), hold_at(say("two"), gate)])) as here:
        await here.say("first", "k1", key=KEY)
        told = (await here.call("chat.history", sessionKey=KEY))["messages"]
        how = {"key": KEY, "entry": told[0]["__openclaw"]["id"]} if method == "sessions.rewind" else {}
        how = how or {"sessionKey": KEY, "message": "a note"}
        held = Held(here, "write")
        change, sent = await begin(here, here.call(method, **how), held)
        held.go.set()
        assert (await change)["ok"] and (await sent)["status"] == "started"
        gate.open()
        async with asyncio.timeout(60):
            while here.app.dispatcher.busy:
                await asyncio.sleep(0.01)
    assert check_home(str(tmp_path / "h")) == []


async def test_a_message_that_comes_while_the_conversation_is_deleted_begins_a_new_one(tmp_path: Path) -> None:
    """Its run went on with the old one, whose file was put away: what was said was in no conversation."""
    async with place(tmp_path / "h", ScriptedModel([say("one"), say("two")])) as here:
        await here.say("first", "k1", key=KEY)
        held = Held(here, "drop_session")
        change, sent = await begin(here, here.call("sessions.delete", key=KEY), held)
        held.go.set()
        assert (await change)["deleted"] and (await sent)["status"] == "started"
        async with asyncio.timeout(60):
            while len(told := (await here.call("chat.history", sessionKey=KEY))["messages"]) < 2:
                await asyncio.sleep(0.01)
        assert [one["role"] for one in told] == ["user", "assistant"]
    assert check_home(str(tmp_path / "h")) == []


async def test_what_waits_in_a_conversation_goes_with_it(tmp_path: Path) -> None:
    """It began as soon as the run was stopped, in a conversation that was just being deleted."""
    gate = StreamGate()
    async with place(
        tmp_path / "h", ScriptedModel([say("one"), hold_at(say("two"), gate), hold_at(say("three"), gate)])
    ) as here:
        await here.say("first", "k1", key=KEY)
        for ident in ("k2", "k3"):
            await here.call("chat.send", sessionKey=KEY, message=ident, idempotencyKey=ident, queue="followup")
        await gate.wait_reached()
        held = Held(here, "drop_session")
        deleting = asyncio.ensure_future(here.call("sessions.delete", key=KEY))
        await asyncio.wait_for(held.reached.wait(), 60)
        assert not here.app.dispatcher.busy and not await here.app.store.list_waiting(KEY)
        held.go.set()
        assert (await deleting)["deleted"] and await here.app.store.session(KEY) is None
    assert check_home(str(tmp_path / "h")) == []


async def test_a_deletion_that_the_disk_refuses_leaves_a_conversation_that_can_go_on(tmp_path: Path) -> None:
    """Its file was put away, and the next lines made one without a beginning."""
    async with place(tmp_path / "h", ScriptedModel([say("one"), say("two")])) as here:
        await here.say("first", "k1", key=KEY)
        drop = here.app.store.drop_session

        async def refuse(*_: Any) -> None:
            here.app.store.drop_session = drop  # type: ignore[method-assign]
            raise DiskFull("full")

        here.app.store.drop_session = refuse  # type: ignore[method-assign]
        assert "full" in (await here.refused("sessions.delete", key=KEY)).message
        await here.say("again", "k2", key=KEY)
    assert check_home(str(tmp_path / "h")) == []


async def test_what_waits_only_on_disk_counts_as_well(tmp_path: Path) -> None:
    """As a run does that was handed back because the gateway stops: rewound under it, it took another's answer."""
    async with place(tmp_path / "h", ScriptedModel([say("one")])) as here:
        await here.say("first", "k1", key=KEY)
        (row,) = await here.app.store.sessions()
        body = msgspec.json.encode(inbound("waits", session=row.key, push=False))
        waits = InboxItem("waits", "waits", row.key, "main", body, at=0)
        await here.app.store.accept(waits, claim=False)
        told = (await here.call("chat.history", sessionKey=KEY))["messages"]
        rewind = {"key": KEY, "entry": told[0]["__openclaw"]["id"]}
        assert "busy" in (await here.refused("sessions.rewind", **rewind)).message
        assert (await here.call("sessions.delete", key=KEY))["deleted"]
        found = await here.app.store.item("waits")
        assert found is not None and found.outcome == "aborted"
    assert check_home(str(tmp_path / "h")) == []
