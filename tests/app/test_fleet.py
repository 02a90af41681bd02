"""What a node of a fleet does besides: which agents it runs, orders, commands of the dead, senders who wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from channels.scene import until
from fleets import FakeFleet, make_node
from flow.test_app import running
from palinurus.app import App
from palinurus.app.fleet import KIND, FleetKeeper, make_node_facts
from palinurus.core.types.inbound import Sender
from palinurus.store.fleet import UnservedAgent
from palinurus.store.news import StoreNews
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, say
from palinurus.tools.commands.record import KIND as PROCESS
from palinurus.tools.commands.record import CommandRecord
from support import inbound

MAIN = "agent:main:main"


def use(monkeypatch: pytest.MonkeyPatch, fleet: FakeFleet) -> FakeFleet:
    monkeypatch.setattr(App, "open_store", staticmethod(fleet.wrap_opener()))
    return fleet


async def answered(app: App, text: str) -> str:
    row = await app.wait((await app.submit(inbound(text, push=False))).id)
    return row.note


def test_the_digest_of_a_config_leaves_out_what_is_each_machines_own() -> None:
    told: dict[str, Any] = {"agents": {"list": [{"id": "a", "workspace": "/x"}]}, "store": {"node": "a"}}
    other: dict[str, Any] = {"agents": {"list": [{"id": "a", "workspace": "/y"}]}, "gateway": {"port": 1}}
    assert make_node_facts(told) == make_node_facts(other)
    assert make_node_facts(told) != make_node_facts({**told, "tools": {"deny": ["exec"]}})


async def test_the_first_node_has_an_agents_workspace_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = use(monkeypatch, FakeFleet())
    for _ in range(2):  # also when it comes again
        async with running(tmp_path / "h", ScriptedModel([say("here I am")])) as app:
            assert await answered(app, "hi") == "here I am"
            assert fleet.served == ["main"]
    fleet.name = "there"
    async with running(tmp_path / "h", ScriptedModel([])) as app:
        assert fleet.served == ["-"] and not app.dispatcher.serves(MAIN)
        assert not app.dispatcher.serves(f"control:{MAIN}") and not app.dispatcher.serves(f"control/x:{MAIN}")
        kept = await app.store.get_record(KIND, "main")
        assert kept is not None and kept.data == b"here"


@pytest.mark.parametrize(("config", "served"), [({"sharedWorkspaces": True}, []), ({"serves": ["main"]}, ["main"])])
async def test_what_the_config_says_is_so_on_every_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], served: list[str]
) -> None:
    fleet = use(monkeypatch, FakeFleet())
    for name in ("here", "there"):
        fleet.name = name
        async with running(tmp_path / "h", ScriptedModel([say("yes")]), store=config) as app:
            assert await answered(app, "hi") == "yes" and fleet.served == served
            assert app.dispatcher.serves(f"control:{MAIN}")


async def test_an_order_to_go_is_for_one_node(tmp_path: Path) -> None:
    left: list[str] = []
    async with running(tmp_path / "h", ScriptedModel([])) as app:
        keeper = FleetKeeper(FakeFleet(), app.store, app.clock, 60.0, app.processes)
        keeper.leave = lambda: left.append("now")
        keeper.hear(StoreNews("drain", "there"))
        keeper.hear(StoreNews("released", "here"))
        assert left == []
        keeper.hear(StoreNews("drain", "here"))
    assert left == ["now"]


async def test_a_sender_whose_agent_nobody_runs_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeFleet(unserved=[UnservedAgent("main", 1)]))
    channel = FakeChannel("fake")
    async with running(tmp_path / "h", ScriptedModel([]), channel, store={"serves": ["work"]}) as app:
        for text in ("one", "two", "three"):
            await app.submit(inbound(text, sender=Sender("human", owner=True, allowed=True)))
        await until(lambda: bool(channel.texts))
        assert len(channel.texts) == 1 and "is kept" in channel.texts[0]
        assert len(await app.store.list_waiting(MAIN)) == 3


async def test_commands_of_a_dead_node_are_told_once_as_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, FakeFleet(make_node("here"), make_node("alive")))
    model = ScriptedModel([say("noted")], repeat=True)
    async with running(tmp_path / "h", model, store={"sharedWorkspaces": True}) as app:
        for node in ("dead", "alive"):
            asker = inbound("run it", push=False)
            told = CommandRecord(f"id-{node}", f"mark-{node}", MAIN, "main", "make", 1, asker, background=True,
                                 notify=True, node=node)  # fmt: skip
            await app.store.put_record(PROCESS, told.mark, msgspec.json.encode(told))
        assert await app.processes.tell_lost({"here", "alive"}) == 1
        await until(lambda: len(model.requests) == 1)
        assert "outcome unknown (id-dead)" in str(model.requests[0].messages[-1])
        for _ in range(200):
            if await app.store.get_record(PROCESS, "mark-dead") is None:
                break
            await app.clock.sleep(0.05)
        assert await app.processes.tell_lost({"here", "alive"}) == 0
        assert await app.store.get_record(PROCESS, "mark-alive") is not None
