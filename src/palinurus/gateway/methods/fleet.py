"""Methods about the gateways that share one state: how they are, and two orders. docs/fleet.md."""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.gateway.rpc import ADMIN, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty, NoParams
from palinurus.store.fleet import FleetPort

ALONE = "this gateway keeps its state on its own machine: there is no fleet (docs/fleet.md says how to have one)"


class FleetNodeParams(MethodParams, frozen=True):
    node: NonEmpty


async def get_fleet_status(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """All nodes and what waits; `fleet` false where the state is this machine's own."""
    fleet = call.program.fleet
    if fleet is None:
        return {"fleet": False, "message": ALONE}
    report = await fleet.report()
    return {"fleet": True, "self": fleet.name, "differs": report.differs, **msgspec.to_builtins(report)}


async def drain_fleet_node(call: MethodCall, asked: FleetNodeParams) -> dict[str, Any]:
    """Have a node finish what it runs, and go."""
    if not await _require(call).drain(asked.node):
        raise MethodError(f"there is no node {asked.node!r}")
    return {"node": asked.node, "draining": True}


async def evict_fleet_node(call: MethodCall, asked: FleetNodeParams) -> dict[str, Any]:
    """Take a node's work from it at once. What it still does is refused."""
    if not await _require(call).evict(asked.node):
        raise MethodError(f"there is no node {asked.node!r}")
    return {"node": asked.node, "evicted": True}


def _require(call: MethodCall) -> FleetPort:
    if call.program.fleet is None:
        raise MethodError(ALONE)
    return call.program.fleet


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("fleet.status", ADMIN, NoParams, get_fleet_status),
    GatewayMethod("fleet.drain", ADMIN, FleetNodeParams, drain_fleet_node),
    GatewayMethod("fleet.evict", ADMIN, FleetNodeParams, evict_fleet_node),
)
