"""Nodes: other machines and devices that do something for the agent. What one says of itself, what is asked of it and
what it answers, and the port through which tools see all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from palinurus.core.types.approval import ApprovalDecision

CONTAINED = "system.run.contained"  # the permission with which a node says that a sandbox holds its commands
RUN, WHICH, NOTIFY = "system.run", "system.which", "system.notify"


class NodeSurface(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a node offers, in its own words."""

    caps: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    permissions: dict[str, bool] = {}


class NodeView(msgspec.Struct, frozen=True):
    """A node as it stands. `commands` are those that may be called now."""

    id: str
    name: str
    platform: str
    commands: tuple[str, ...]
    paired: bool
    connected: bool
    contained: bool = False  # a sandbox of its own holds what it runs

    @property
    def label(self) -> str:
        """What people call it."""
        return self.name or self.id[:12]


class NodeOrder(msgspec.Struct, frozen=True):
    """One command for one node. The same `key` is never sent twice."""

    node: str
    command: str
    params: Mapping[str, Any]
    key: str
    timeout: float = 30.0  # seconds
    approved: ApprovalDecision | None = None  # what a person said about it


class NodeAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of it. `unknown`: it was sent, and nobody can say what became of it."""

    ok: bool
    payload: Any = None
    code: str = ""
    message: str = ""
    unknown: bool = False


class NodesPort(Protocol):
    """All nodes, for tools."""

    def views(self) -> list[NodeView]:
        """Every node, paired or connected."""
        ...

    def find(self, wanted: str) -> NodeView:
        """By id, by the beginning of it, or by name. Raises NotFound, BadRequest."""
        ...

    def waiting(self) -> list[dict[str, Any]]:
        """Requests that wait for a person."""
        ...

    def decide(self, request: str, yes: bool) -> Awaitable[str]:
        """Pair a node or not, as a person said; its id. Raises NotFound."""
        ...

    def invoke(self, order: NodeOrder) -> Awaitable[NodeAnswer]:
        """Raises nothing but CancelledError, which ends the command there too, and StateError kinds."""
        ...


OpenNodes: TypeAlias = Callable[[], Awaitable[NodesPort]]
