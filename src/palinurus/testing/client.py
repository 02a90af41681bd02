"""Protocol clients for tests: `knock` opens a gateway's door as the owner would, with whatever a test wants different.

The client itself is `palinurus.gateway.client`, the one our own faces use.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from palinurus.clock import Clock
from palinurus.gateway.client import Link, Options, connect, identity


def url(port: int) -> str:
    """Where a gateway on this machine is."""
    return f"ws://127.0.0.1:{port}/"


@asynccontextmanager
async def knock(port: int, clock: Clock, **options: Any) -> AsyncIterator[Link]:
    """A client that is logged in, and gone afterwards. Brings a device of its own unless told otherwise.

    Raises RpcError when the gateway refuses it.
    """
    options.setdefault("identity", identity())
    link = await connect(url(port), clock, Options(**options))
    try:
        yield link
    finally:
        await link.close()
