"""The conversation on the screen: blocks by id, the newest below, following the end until somebody scrolls up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from textual.containers import VerticalScroll

from palinurus.cli.tui.blocks import AnswerWidget, FoldableWidget, Piece, make_block_widget
from palinurus.cli.tui.talk import ConversationBlock

MOST = 400  # pieces on the screen; older ones go (they are on disk)


class ConversationLog(VerticalScroll, can_focus=False):
    """Holds the pieces."""

    def __init__(self) -> None:
        super().__init__(id="log")
        self._pieces: dict[str, Piece] = {}
        self._turn = asyncio.Lock()  # what one caller draws is drawn before the next one begins
        self.unfolded = False

    def on_mount(self) -> None:
        """Stay at the end while more comes."""
        self.anchor()

    async def clear(self) -> None:
        """Everything goes."""
        async with self._turn:
            for shown in self._pieces.values():
                await shown.end()
            self._pieces.clear()
            await self.remove_children()
            self.anchor()

    async def show(self, blocks: Iterable[ConversationBlock]) -> None:
        """New pieces below, known ones in their place."""
        async with self._turn:
            await self._show(blocks)

    async def _show(self, blocks: Iterable[ConversationBlock]) -> None:
        fresh: list[Piece] = []
        for block in blocks:
            known = self._pieces.get(block.id)
            if known is not None:
                await known.show(block)
                continue
            made = self._pieces[block.id] = make_block_widget(block)
            if isinstance(made, FoldableWidget):
                made.unfolded = self.unfolded
            fresh.append(made)
        if fresh:
            for last in list(self._pieces.values())[-len(fresh) - 1 : -len(fresh)]:
                await last.end()
            await self.mount_all(fresh[-MOST:])
            await self._trim()

    async def _trim(self) -> None:
        old = list(self._pieces)[: max(0, len(self._pieces) - MOST)]
        gone = [self._pieces.pop(ident) for ident in old]
        await self.remove_children([one for one in gone if one.is_attached])

    async def settle(self) -> None:
        """A run is over: what grew has grown."""
        async with self._turn:
            for shown in self._pieces.values():
                await shown.end()

    def fold(self) -> None:
        """Show all of every tool and thought, or no longer."""
        self.unfolded = not self.unfolded
        for shown in self._pieces.values():
            shown.fold(self.unfolded)

    def last(self) -> str:
        """The newest words of the agent."""
        spoken = [one.block.text for one in self._pieces.values() if isinstance(one, AnswerWidget)]
        return spoken[-1] if spoken else ""
