"""Protocol clients for tests: `connect_to_gateway` comes as the owner would, with whatever a test wants different.

The client itself is `palinurus.gateway.client`, the one our own faces use.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from palinurus.clock import Clock
from palinurus.gateway.client import GatewayLink, LoginOptions, connect_gateway, make_identity


def make_gateway_url(port: int) -> str:
    """Where a gateway on this machine is."""
    return f"ws://127.0.0.1:{port}/"


@asynccontextmanager
async def connect_to_gateway(port: int, clock: Clock, **options: Any) -> AsyncIterator[GatewayLink]:
    """A client that is logged in, and gone afterwards. Brings a device of its own unless told otherwise.

    Raises RpcError when the gateway refuses it.
    """
    options.setdefault("identity", make_identity())
    link = await connect_gateway(make_gateway_url(port), clock, LoginOptions(**options))
    try:
        yield link
    finally:
        await link.close()
