"""What a connection needs of the room it is in. `gateway.room.Room` has this shape."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from palinurus.gateway.auth import Gate
from palinurus.gateway.limits import Pace
from palinurus.gateway.pairing import Pairing
from palinurus.gateway.rpc import Client, Face, Method, RpcError
from palinurus.gateway.ws.handshake import Login


class Joiner(Protocol):
    """A connection as the room sees it."""

    conn: str
    client: Client

    def push(self, head: bytes, payload: bytes, tail: bytes, droppable: bool = False) -> None: ...

    def close(self, code: int, reason: str, *, flush: bool = False) -> None: ...

    def cut(self, code: int, reason: str) -> None: ...


class Room(Face, Protocol):
    """The gateway, from inside a connection."""

    gate: Gate
    methods: Mapping[str, Method]
    pace: Pace
    tasks: set[asyncio.Task[None]]  # requests under way, whoever asked
    buffered: int  # bytes that may wait for one client

    @property
    def pairing(self) -> Pairing: ...

    def startup_error(self) -> RpcError | None:
        """Why nobody can come in yet, if so."""
        ...

    def add_client(self, member: Joiner, login: Login, token: str, hello: Callable[[dict[str, Any]], None]) -> None:
        """It has logged in: calls `hello` with the payload of hello-ok, then sends it what it missed."""
        ...

    def drop_client(self, member: Joiner) -> None:
        """It is gone (also one that never logged in)."""
        ...
