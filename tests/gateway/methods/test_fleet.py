"""fleet.*: for administrators only; what it says and does with a fleet and without."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from fleets import FakeFleet, make_node
from gateway.host import TOKEN
from gateway.whole import place
from palinurus.app import App
from palinurus.core.types.caller import APPROVALS, PAIRING, READ, WRITE
from palinurus.gateway.methods.fleet import METHODS
from palinurus.gateway.rpc import MethodError
from palinurus.store.fleet import UnservedAgent


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> FakeFleet:
    made = FakeFleet(make_node("here"), make_node("there", config="other"), unserved=[UnservedAgent("work", 3)])
    monkeypatch.setattr(App, "open_store", staticmethod(made.wrap_opener()))
    return made


async def test_a_gateway_alone_says_so(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as site:
        told = await site.call("fleet.status")
        assert told["fleet"] is False and "its own machine" in told["message"]
        assert "its own machine" in (await site.refused("fleet.drain", node="x")).message


async def test_nodes_are_shown_drained_and_evicted(tmp_path: Path, fleet: FakeFleet) -> None:
    async with place(tmp_path / "h") as site:
        told = await site.call("fleet.status")
        assert told["fleet"] is True and told["self"] == "here" and told["differs"] is True
        assert [node["id"] for node in told["nodes"]] == ["here", "there"] and told["nodes"][0]["left"] == 12.4
        assert told["unserved"] == [{"agent": "work", "waiting": 3}]
        await site.call("fleet.drain", node="there")
        assert fleet.nodes["there"].draining
        await site.call("fleet.evict", node="there")
        assert [*fleet.nodes] == ["here"]
        assert "no node 'gone'" in (await site.refused("fleet.evict", node="gone")).message
    assert fleet.retired  # it gives back what it did alone before it goes


@pytest.mark.parametrize("scope", [READ, WRITE, APPROVALS, PAIRING])
async def test_nobody_but_an_administrator_may(tmp_path: Path, fleet: FakeFleet, scope: str) -> None:
    async with place(tmp_path / "h") as site, site.other(scopes=(scope,)) as link:
        for method in METHODS:
            with pytest.raises(MethodError, match="missing scope"):
                await link.call(method.name, {} if method.name == "fleet.status" else {"node": "there"})
    assert len(fleet.nodes) == 2


async def test_the_metrics_tell_of_the_fleet(tmp_path: Path, fleet: FakeFleet) -> None:
    fleet.figures.stale["settle"] = 4
    fleet.figures.count_batch(7, 0.25)
    async with place(tmp_path / "h") as site, aiohttp.ClientSession() as http:
        head = {"Authorization": f"Bearer {TOKEN}"}
        async with http.get(f"http://127.0.0.1:{site.server.port}/metrics", headers=head) as answer:
            text = await answer.text()
    told = ('stale_total{kind="settle"} 4', "fleet_changes_total 7", "fleet_batch_seconds_total 0.25", "fleet_nodes 2")
    assert all(f"palinurus_{line}\n" in text for line in told), text
