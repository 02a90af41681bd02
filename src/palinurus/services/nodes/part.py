"""Nodes as the program sees them before there are any: is one paired, and what tools are there for that.

Small, because it is loaded with the program; the rest is loaded with the first node or the first question about one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any

import msgspec

from palinurus.clock import Clock
from palinurus.config.sections.gateway import NodeSettings
from palinurus.core.types.tool import Tool
from palinurus.late import load_part
from palinurus.store.port import StoreRecord
from palinurus.store.records import RecordStore

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
        self._tools: MutableMapping[str, Tool] = {}
        self._forget: Callable[[], None] = lambda: None
        self._offered: bool | None = None  # with what the tool was last made; None: not yet

    async def load(self) -> None:
        """Is there a node? Only then is anything loaded."""
        if has_paired(await self._store.list_records(KIND)):
            await self.open()

    def attach(self, tools: MutableMapping[str, Tool], forget: Callable[[], None]) -> None:
        """Where the tool is once it was made, and who is told when it comes or goes."""
        self._tools, self._forget = tools, forget

    def make_tools(self) -> dict[str, Tool]:
        """The tool, by its name. Without a node it says why it can do nothing, and nobody is offered it."""
        self._offered = self._board is not None and bool(self._board.pairing.nodes())
        made: dict[str, Tool] = load_part("nodes-offer")(self.open, self._offered)
        return made

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
        there = self._board is not None and bool(self._board.pairing.nodes())
        if self._offered is not None and self._offered != there:
            self._tools.update(self.make_tools())
            self._forget()
