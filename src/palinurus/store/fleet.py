"""The nodes that share one state, for those who look after them: who they are, how they are, and two orders. A state on
one machine has none of this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import msgspec

OLDEST = 13  # of PostgreSQL
NO_AGENT = "-"  # what a node serves that serves nobody


class MemberFacts(msgspec.Struct, frozen=True):
    """What a node says of itself when it joins."""

    release: str = ""  # of the program
    config: str = ""  # digest of what has to be the same on all nodes


class FleetNode(msgspec.Struct, frozen=True, rename="camel"):
    """A node as it stands. Seconds; `left` of its lease, negative when it is over."""

    id: str
    epoch: int
    left: float
    age: float  # since it joined
    runs: int
    holds: list[str]  # what it alone does
    version: int  # of the tables that it knows
    release: str
    config: str
    serves: list[str] | None
    draining: bool
    stale: dict[str, int]  # changes of it that came too late and were refused, by kind
    skew: int  # ms that its clock is ahead of the database's

    def list_agents(self) -> list[str] | None:
        """The agents that it runs; None: all."""
        named = None if self.serves is None else [prefix.split(":")[1] for prefix in self.serves]
        return None if named is None else [name for name in named if name != NO_AGENT]


class UnservedAgent(msgspec.Struct, frozen=True):
    """Messages for an agent that no node serves."""

    agent: str
    waiting: int


class FleetReport(msgspec.Struct, frozen=True, rename="camel"):
    """All nodes, and what waits: how many messages, and how long the oldest has (seconds)."""

    nodes: list[FleetNode]
    waiting: int
    oldest: float
    version: int
    unserved: list[UnservedAgent]

    def find_orphans(self, node: str) -> list[str]:
        """Agents that nobody runs when this node goes."""
        others = [one.list_agents() for one in self.nodes if one.id != node and one.left > 0 and not one.draining]
        mine = next((one.list_agents() for one in self.nodes if one.id == node), None)
        if mine is None or None in others:
            return []
        return [agent for agent in mine if not any(agent in (named or ()) for named in others)]

    @property
    def differs(self) -> bool:
        """Do nodes that live have different configs?"""
        return len({node.config for node in self.nodes if node.left > 0}) > 1


class ServerHealth(msgspec.Struct, frozen=True):
    """What was seen. `skew`: ms that this machine's clock is ahead; `report` None: there is no fleet there yet."""

    release: int
    standby: bool
    commits: str  # synchronous_commit
    standbys: int
    synchronous: int  # of those
    skew: int
    pooled: bool  # connections do not keep what was set in them
    known: int  # the version of the tables that this program makes
    report: FleetReport | None


class FleetFigures(msgspec.Struct):
    """What one node counts, since it joined."""

    stale: Counter[str] = msgspec.field(default_factory=Counter)
    batches: int = 0
    changes: int = 0
    seconds: float = 0.0  # that batches took
    news: int = 0  # that came from others
    renewed: float = 0.0  # when its lease was last renewed, monotonic
    told: int = 0  # of `stale`, how many the others know of

    def count_batch(self, changes: int, seconds: float) -> None:
        """One statement carried out `changes` changes."""
        self.batches += 1
        self.changes += changes
        self.seconds += seconds


class FleetPort(Protocol):
    """One node's view."""

    @property
    def name(self) -> str: ...

    @property
    def figures(self) -> FleetFigures: ...

    async def report(self) -> FleetReport: ...

    async def serve(self, agents: Sequence[str]) -> None:
        """This node runs the messages of these agents; none: of all."""
        ...

    async def drain(self, node: str) -> bool:
        """Ask a node to finish what it runs, and to go. False: there is no such node."""
        ...

    async def evict(self, node: str) -> bool:
        """Take a node's work from it at once. False: there is no such node."""
        ...

    async def retire(self) -> None:
        """This node is about to go: others do from now on what it did alone, but for its channels, whose replies it
        still sends."""
        ...
