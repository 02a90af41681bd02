"""What a connection needs of the room it is in. `gateway.room.Room` has this shape."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from palinurus.gateway.auth import GatewayAuth
from palinurus.gateway.limits import GatewayRateLimit
from palinurus.gateway.pairing import DevicePairing
from palinurus.gateway.rpc import ConnectedClient, GatewayMethod, GatewayPort, MethodError
from palinurus.gateway.ws.handshake import ClientLogin


class MemberConnection(Protocol):
    """A connection as the room sees it."""

    conn: str
    client: ConnectedClient

    def push(self, head: bytes, payload: bytes, tail: bytes, droppable: bool = False) -> None: ...

    def close(self, code: int, reason: str, *, flush: bool = False) -> None: ...

    def cut(self, code: int, reason: str) -> None: ...


class ConnectionHost(GatewayPort, Protocol):
    """The gateway, from inside a connection."""

    gate: GatewayAuth
    methods: Mapping[str, GatewayMethod]
    pace: GatewayRateLimit
    tasks: set[asyncio.Task[None]]  # requests under way, whoever asked
    buffered: int  # bytes that may wait for one client

    @property
    def pairing(self) -> DevicePairing: ...

    def startup_error(self) -> MethodError | None:
        """Why nobody can come in yet, if so."""
        ...

    def add_client(
        self, member: MemberConnection, login: ClientLogin, token: str, hello: Callable[[dict[str, Any]], None]
    ) -> None:
        """It has logged in: calls `hello` with the payload of hello-ok, then sends it what it missed."""
        ...

    def drop_client(self, member: MemberConnection) -> None:
        """It is gone (also one that never logged in)."""
        ...
