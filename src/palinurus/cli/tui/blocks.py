"""The pieces of the conversation as widgets: one per kind of block. They show what they are given
and decide nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from palinurus.cli.render import format_milliseconds, tell_tool_state
from palinurus.cli.tui.answer import AnswerWidget
from palinurus.cli.tui.conversation import ConversationBlock
from palinurus.cli.tui.markdown import DIFF_STYLES

# The conversation on the screen: blocks by id, the newest below, following the end until somebody scrolls up.

QUESTION = "🔒"  # how a card begins: what decides stands in its first lines
MOST = 400  # pieces on the screen; older ones go (they are on disk)


class ConversationLog(VerticalScroll, can_focus=False):
    """Holds the pieces."""

    def __init__(self) -> None:
        super().__init__(id="log")
        self._pieces: dict[str, Piece] = {}
        self._turn = asyncio.Lock()  # what one caller draws is drawn before the next one begins
        self._looked = 0  # pieces that came by looking back: they are not counted
        self.unfolded = False

    def on_mount(self) -> None:
        """Stay at the end while more comes."""
        self.anchor()

    async def clear(self) -> None:
        """Everything goes."""
        async with self._turn:
            self._pieces.clear()
            self._looked = 0
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
            await self.mount_all(fresh[-MOST:])
            await self._trim()

    async def show_above(self, blocks: Iterable[ConversationBlock]) -> None:
        """New pieces above all others but the greeting; what is seen stays where it is."""
        async with self._turn:
            made = {block.id: make_block_widget(block) for block in blocks if block.id not in self._pieces}
            below = self.virtual_size.height - self.scroll_y
            greeting = dict(list(self._pieces.items())[:1])
            self._pieces = {**greeting, **made, **self._pieces}
            self._looked += len(made)
            await self.mount_all(list(made.values()), after=0 if self.children else None)
            for seconds in SETTLING:  # Markdown grows after it was put there
                self.set_timer(seconds, partial(self._stay, below))

    def _stay(self, below: float) -> None:
        self.scroll_to(y=max(0.0, self.virtual_size.height - below), animate=False)

    async def _trim(self) -> None:
        old = list(self._pieces)[: max(0, len(self._pieces) - MOST - self._looked)]
        gone = [self._pieces.pop(ident) for ident in old]
        await self.remove_children([one for one in gone if one.is_attached])

    def fold(self) -> None:
        """Show all of every tool and thought, or no longer."""
        self.unfolded = not self.unfolded
        for shown in self._pieces.values():
            shown.fold(self.unfolded)

    def last(self) -> str:
        """The newest words of the agent."""
        spoken = [one.block.text for one in self._pieces.values() if isinstance(one, AnswerWidget)]
        return spoken[-1] if spoken else ""


SETTLING = (0.02, 0.15, 0.5)  # seconds
FOLDED = 6  # lines of a tool's output that are shown unasked
UNFOLDED = 400
DIFF = 20  # lines of a change
THOUGHT = 1  # lines

_STATES = {"sending": " (sending)", "waiting": " (waiting)", "taken": " (taken in)", "failed": " (not sent)"}


class BlockWidget(Static):
    """Text that is text: no markup of anybody's acts."""

    def __init__(self, block: ConversationBlock) -> None:
        super().__init__(self.draw_block(block), markup=False, classes=block.kind)
        self.block = block

    def draw_block(self, block: ConversationBlock) -> Content:
        """How it looks."""
        return Content(block.text)

    async def show(self, block: ConversationBlock) -> None:
        """Another state of the same block."""
        self.block = block
        self.update(self.draw_block(block))

    def fold(self, unfolded: bool) -> None:
        """Show all, or the beginning. Most have nothing to fold."""


class UserWidget(BlockWidget):
    """What somebody said."""

    def draw_block(self, block: ConversationBlock) -> Content:
        mark = Content.styled(_STATES.get(block.state, ""), "dim")
        return Content.assemble(Content.styled("› ", "bold"), block.text, mark)


class FoldableWidget(BlockWidget):
    """Something with more in it than is shown at once."""

    unfolded = False

    def fold(self, unfolded: bool) -> None:
        self.unfolded = unfolded
        self.update(self.draw_block(self.block))

    def on_click(self) -> None:
        """A click on one shows it whole."""
        self.fold(not self.unfolded)


class ThoughtWidget(FoldableWidget):
    """What the model thinks."""

    def draw_block(self, block: ConversationBlock) -> Content:
        lines = block.text.strip().split("\n")
        more = " …" if len(lines) > THOUGHT and not self.unfolded else ""
        kept = lines[-UNFOLDED:] if self.unfolded else lines[:THOUGHT]
        return Content.assemble(Content.styled("Thinking  ", "italic"), "\n".join(kept) + more)


class ToolWidget(FoldableWidget):
    """A tool at work: what it was asked, the end of what it says, how it went."""

    def draw_block(self, block: ConversationBlock) -> Content:
        running = block.state == "running"
        mark, colour = ("…", "warning") if running else tell_tool_state(block.state == "failed", block.code)
        clock = f" {format_milliseconds(block.took)}" if block.took else ""
        style = {"red": "$error", "green": "$success"}.get(colour, "$warning")
        head = Content.assemble("⚙ ", Content.styled(block.head, "bold"), " ", Content.styled(mark, style), clock)
        if block.diff:
            return Content.assemble(head, *self._changed(block.diff))
        lines = block.text.rstrip().split("\n") if block.text.strip() else []
        most = UNFOLDED if self.unfolded else FOLDED
        rest = len(lines) - most
        below = block.text.startswith(QUESTION)
        told = [f"  {line}" for line in (lines[:most] if below else lines[-most:])]
        if rest > 0:
            told.insert(len(told) if below else 0, f"  … {rest} more {'below' if below else 'above'} (Ctrl-O)")
        return Content.assemble(head, Content.styled("\n" + "\n".join(told), "dim")) if told else head

    def _changed(self, diff: str) -> Iterable[Content]:
        """Lines of a diff from its top, coloured: what was there, what is there now."""
        lines = diff.split("\n")
        most = UNFOLDED if self.unfolded else DIFF
        for line in lines[:most]:
            yield Content.styled(f"\n  {line}", DIFF_STYLES.get(line[:1], "dim"))
        if len(lines) > most:
            yield Content.styled(f"\n  … {len(lines) - most} more below (Ctrl-O)", "dim")


Piece = BlockWidget | AnswerWidget

_KINDS: dict[str, type[BlockWidget]] = {"user": UserWidget, "thought": ThoughtWidget, "tool": ToolWidget}


def make_block_widget(block: ConversationBlock) -> Piece:
    """A new widget for a block."""
    return AnswerWidget(block) if block.kind == "words" else _KINDS.get(block.kind, BlockWidget)(block)
