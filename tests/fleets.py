"""A fleet that is only told of: a store of this machine with nodes beside it, for tests of those who look at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from palinurus.clock import Clock
from palinurus.store.factory import StoreOpener, open_store
from palinurus.store.fleet import FleetFigures, FleetNode, FleetReport, UnservedAgent
from palinurus.store.port import Store


def make_node(name: str, **changes: Any) -> FleetNode:
    node = FleetNode(name, 1, 12.4, 3700.0, 2, ["clock", "channel/telegram"], version=2, release="1.0", config="ab12",
                     serves=None, draining=False, stale={}, skew=0)  # fmt: skip
    return msgspec.structs.replace(node, **changes)


class FakeFleet:
    """Implements `FleetPort`."""

    def __init__(self, *nodes: FleetNode, unserved: Sequence[UnservedAgent] = ()) -> None:
        self.name = "here"
        self.figures = FleetFigures()
        self.nodes = {node.id: node for node in nodes or (make_node("here"), make_node("there"))}
        self.unserved = list(unserved)
        self.served: list[str] | None = None
        self.retired = False

    async def report(self) -> FleetReport:
        return FleetReport([*self.nodes.values()], len(self.unserved), 75.0, 2, self.unserved)

    async def serve(self, agents: Sequence[str]) -> None:
        self.served = list(agents)

    async def drain(self, node: str) -> bool:
        if node in self.nodes:
            self.nodes[node] = msgspec.structs.replace(self.nodes[node], draining=True)
        return node in self.nodes

    async def evict(self, node: str) -> bool:
        return self.nodes.pop(node, None) is not None

    async def retire(self) -> None:
        self.retired = True

    def wrap_opener(self, opener: StoreOpener = open_store) -> StoreOpener:
        """For `App.open_store`."""

        async def open_with_nodes(home: str, clock: Clock) -> Store:
            store = await opener(home, clock)
            store.fleet = self  # type: ignore[attr-defined]
            return store

        return open_with_nodes
