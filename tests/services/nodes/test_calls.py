"""A command for a node is on disk before it is sent, and its key is good for one command."""

from __future__ import annotations

from pathlib import Path

import pytest

from palinurus.core.types.node import NodeAnswer, NodeOrder
from palinurus.errors import BadRequest
from palinurus.services.nodes.calls import KEPT_MS, KIND, MAX_ANSWER, SWEEP_MS, NodeCalls
from palinurus.store.factory import open_store
from palinurus.testing.clock import FakeClock


def order(key: str = "k", command: str = "system.which") -> NodeOrder:
    return NodeOrder("n1", command, {"b": 1, "a": 2}, key)


async def test_a_key_is_sent_once(tmp_path: Path) -> None:
    clock = FakeClock()
    store = await open_store(str(tmp_path), clock)
    calls = NodeCalls(store, clock)
    assert await calls.begin(order()) is None
    told = await NodeCalls(store, clock).begin(order())  # another life: nobody knows
    assert told is not None and told.unknown and "outcome unknown" in told.message
    await calls.end(order(), NodeAnswer(True, {"x": 1}))
    assert await calls.begin(order()) == NodeAnswer(True, {"x": 1})
    with pytest.raises(BadRequest):
        await calls.begin(order(command="system.run"))
    assert await calls.begin(order("long")) is None
    await calls.end(order("long"), NodeAnswer(True, "x" * MAX_ANSWER))
    kept = await calls.begin(order("long"))
    assert kept is not None and kept.ok and kept.payload is None and "not kept" in kept.message
    assert await calls.begin(order("never")) is None
    await calls.forget(order("never"))
    assert await calls.begin(order("never")) is None
    await clock.advance((KEPT_MS + SWEEP_MS) / 1000 + 1)
    await calls.begin(order("new"))
    assert [row.key for row in await store.list_records(KIND)] == ["new"]
    await store.close()
