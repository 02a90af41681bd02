"""The pieces of the conversation as widgets: one per kind of block. They show what they are given
and decide nothing.
"""

from __future__ import annotations

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from textual.content import Content
from textual.widgets import Markdown, Static
from textual.widgets.markdown import MarkdownStream

from palinurus.cli.render import format_milliseconds
from palinurus.cli.tui.talk import ConversationBlock

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
