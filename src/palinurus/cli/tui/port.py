"""What the screen needs of the world: a house with a door to the gateway. Who opens it is `cli/link.py`'s business."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol


class ScreenConnection(Protocol):
    """A connection that is logged in. `events` gets every event frame."""

    events: asyncio.Queue[dict[str, Any]]

    async def call(self, method: str, params: Any = None) -> Any:
        """The payload of the answer. Raises RpcError with the refusal, GatewayUnreachable when the line is cut."""
        ...

    async def wait_closed(self) -> int | None:
        """Returns when the line is cut."""
        ...

    async def close(self) -> None:
        """End it."""
        ...


class ConnectionSource(Protocol):
    """Where the agent lives. `where` is for people."""

    where: str

    async def open(self) -> ScreenConnection:
        """A new connection. Raises PalinurusError kinds."""
        ...

    async def close(self) -> None:
        """Leave. The program ends if it ran only for us."""
        ...
