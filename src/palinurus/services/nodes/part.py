"""Nodes as the program sees them before there are any: is one paired, and what tools are there for that.

Small, because it is loaded with the program; the rest is loaded with the first node or the first question about one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from palinurus.clock import Clock
from palinurus.config.sections.gateway import NodeSettings
from palinurus.core.types.tool import Tool
from palinurus.late import load_part
from palinurus.store.port import StoreRecord
from palinurus.store.records import RecordStore
from palinurus.tools.nodes.offer import NONE_PAIRED, make_nodes_tool

if TYPE_CHECKING:
    from palinurus.services.nodes.board import NodeBoard

KIND = "node"


class _Standing(msgspec.Struct):
    blocked: bool = False


def has_paired(rows: list[StoreRecord]) -> bool:
    """Is any of these records (of kind `node`) a node that may connect?"""
    return any(not msgspec.json.decode(row.data, type=_Standing).blocked for row in rows)


class NodesPart:
    """One per program. `open` gives the board, loaded with its rows."""

    def __init__(self, settings: NodeSettings, store: RecordStore, clock: Clock) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._board: NodeBoard | None = None
        self._turn = asyncio.Lock()
        self._tools: dict[str, Tool] = {}
        self._forget: Callable[[], None] = lambda: None

    async def load(self) -> None:
        """Is there a node? Only then is anything loaded."""
        if has_paired(await self._store.list_records(KIND)):
            await self.open()

    def attach(self, tools: dict[str, Tool], forget: Callable[[], None]) -> None:
        """Where the tool is to be, and who is told when it comes or goes."""
        self._tools, self._forget = tools, forget
        tools.update(make_nodes_tool(self.open, NONE_PAIRED))

    async def open(self) -> NodeBoard:
        """The board. Raises StateError kinds."""
        async with self._turn:
            if self._board is None:
                make: Any = load_part("nodes")
                board: NodeBoard = make(self._settings, self._store, self._clock, self._changed)
                await board.pairing.load()
                self._board = board
                self._changed()
            return self._board

    @property
    def board(self) -> NodeBoard | None:
        """The board, if somebody has opened it."""
        return self._board

    async def reread(self, ident: str) -> None:
        """Another gateway of this state has changed a node."""
        await (await self.open()).pairing.reread(ident)

    def _changed(self) -> None:
        """A node was paired, or one is no longer: the tool comes with the first and goes with the last."""
        missing = "" if self._board is not None and self._board.pairing.nodes() else NONE_PAIRED
        if "nodes" in self._tools and self._tools["nodes"].missing != missing:
            self._tools.update(make_nodes_tool(self.open, missing))
            self._forget()
