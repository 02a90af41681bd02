"""The pieces of the conversation as widgets: one per kind of block. They show what they are given
and decide nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Markdown, Static
from textual.widgets.markdown import MarkdownStream

from palinurus.cli.render import format_milliseconds
from palinurus.cli.tui.conversation import ConversationBlock

# The conversation on the screen: blocks by id, the newest below, following the end until somebody scrolls up.

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


FOLDED = 6  # lines of a tool's output that are shown unasked
UNFOLDED = 400
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

    async def end(self) -> None:
        """Nothing more comes."""


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
        mark, style = {"done": ("ok", "$success"), "failed": ("failed", "$error")}.get(block.state, ("…", "$warning"))
        clock = f" {format_milliseconds(block.took)}" if block.took else ""
        head = Content.assemble("⚙ ", Content.styled(block.head, "bold"), " ", Content.styled(mark, style), clock)
        lines = block.text.rstrip().split("\n") if block.text.strip() else []
        most = UNFOLDED if self.unfolded else FOLDED
        rest = len(lines) - most
        told = [f"  … {rest} lines before (Ctrl-O)"] if rest > 0 else []
        told += [f"  {line}" for line in lines[-most:]]
        return Content.assemble(head, Content.styled("\n" + "\n".join(told), "dim")) if told else head


def _parser() -> MarkdownIt:
    """GitHub's Markdown, but a bare `NOTES.md` is a file and no address, and lines end where they do on the page."""
    parser = MarkdownIt("gfm-like", {"linkify": False}).disable("linkify")
    parser.core.ruler.push("breaks", _breaks)
    return parser


def _breaks(state: StateCore) -> None:
    for token in state.tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"


class AnswerWidget(Markdown):
    """What the agent says, as Markdown that grows."""

    def __init__(self, block: ConversationBlock) -> None:
        super().__init__(block.text, classes="words", open_links=False, parser_factory=_parser)
        self.block = block
        self._stream: MarkdownStream | None = None

    async def show(self, block: ConversationBlock) -> None:
        """More of it, or something else."""
        before, self.block = self.block.text, block
        if block.text == before:
            return
        if block.text.startswith(before):
            if self._stream is None:
                self._stream = Markdown.get_stream(self)
            await self._stream.write(block.text[len(before) :])
        else:
            await self.end()
            await self.update(block.text)

    def fold(self, unfolded: bool) -> None:
        """There is nothing to fold."""

    async def end(self) -> None:
        """Nothing more comes."""
        if self._stream is not None:
            stream, self._stream = self._stream, None
            await stream.stop()


Piece = BlockWidget | AnswerWidget

_KINDS: dict[str, type[BlockWidget]] = {"user": UserWidget, "thought": ThoughtWidget, "tool": ToolWidget}


def make_block_widget(block: ConversationBlock) -> Piece:
    """A new widget for a block."""
    return AnswerWidget(block) if block.kind == "words" else _KINDS.get(block.kind, BlockWidget)(block)
