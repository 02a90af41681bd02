"""What is said to one client of our MCP server on one stream."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import get_args

from palinurus.gateway.mcp.face import Params
from palinurus.plugins.peer import McpLogLevel

KEPT = 1000  # messages of a stream
ANSWER = 600.0  # seconds that a client has to answer us
LEVELS: tuple[str, ...] = get_args(McpLogLevel)


class McpStream:
    """What is said on one stream, numbered from 1. One connection reads it at a time; the next ends the one before."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ended = False
        self.wake = asyncio.Event()
        self._rows: deque[tuple[int, Params]] = deque(maxlen=KEPT)
        self._count = 0
        self._turn = 0

    def say(self, message: Params) -> None:
        self._count += 1
        self._rows.append((self._count, {"jsonrpc": "2.0", **message}))
        self.wake.set()

    def end(self) -> None:
        self.ended = True
        self.wake.set()

    def take(self) -> int:
        """Read from now on: valid while `holds` says so."""
        self._turn += 1
        self.wake.set()
        return self._turn

    def holds(self, turn: int) -> bool:
        return turn == self._turn

    def since(self, number: int) -> list[tuple[int, Params]]:
        return [row for row in self._rows if row[0] > number]
