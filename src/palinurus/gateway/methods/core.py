"""Methods about the gateway itself that need nothing but it: health and who is here."""

from __future__ import annotations

from typing import Any

from palinurus.gateway.rpc import READ, Call, Method, Params


class Health(Params, frozen=True):
    probe: bool = False
    include_sensitive: bool = False


class Nothing(Params, frozen=True):
    pass


async def health(call: Call, params: Health) -> Any:
    """The snapshot; with `probe` a new one."""
    return await call.gateway.health(fresh=params.probe)


async def presence(call: Call, params: Nothing) -> Any:
    """Everyone present."""
    return call.gateway.presence()


METHODS = (
    Method("health", READ, Health, health),
    Method("system-presence", READ, Nothing, presence),
)
