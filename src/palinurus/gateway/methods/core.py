"""Methods about the gateway itself that need nothing but it: health and who is here."""

from __future__ import annotations

from typing import Any

from palinurus.gateway.rpc import READ, GatewayMethod, MethodCall, MethodParams


class HealthParams(MethodParams, frozen=True):
    probe: bool = False
    include_sensitive: bool = False


class NoPresenceParams(MethodParams, frozen=True):
    pass


async def get_health(call: MethodCall, params: HealthParams) -> Any:
    """The snapshot; with `probe` a new one."""
    return await call.gateway.health(fresh=params.probe)


async def get_presence(call: MethodCall, params: NoPresenceParams) -> Any:
    """Everyone present."""
    return call.gateway.presence()


CORE_METHODS = (
    GatewayMethod("health", READ, HealthParams, get_health),
    GatewayMethod("system-presence", READ, NoPresenceParams, get_presence),
)
