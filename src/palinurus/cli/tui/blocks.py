"""The pieces of the conversation as widgets: one per kind of block. They show what they are given
and decide nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Markdown, Static

from palinurus.cli.render import format_milliseconds, tell_tool_state
from palinurus.cli.tui.conversation import ConversationBlock

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
DIFF_STYLES = {"+": "$success", "-": "$error", "@": "$accent", "*": "bold"}

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


def _parser() -> MarkdownIt:
    """GitHub's Markdown, but a bare `NOTES.md` is a file and no address, lines end where they do on the page, and
    where a link leads is said behind its words."""
    parser = MarkdownIt("gfm-like", {"linkify": False}).disable("linkify")
    parser.core.ruler.push("breaks", _breaks)
    parser.core.ruler.push("addresses", _addresses)
    return parser


def _breaks(state: StateCore) -> None:
    for token in state.tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"


def _addresses(state: StateCore) -> None:
    for token in state.tokens:
        shown: list[Token] = []
        href = words = ""
        for child in token.children or ():
            shown.append(child)
            if child.type == "link_open":
                href, words = str(child.attrGet("href") or ""), ""
            elif child.type == "link_close":
                if href.removeprefix("mailto:") != words:
                    shown.append(Token("text", "", 0, content=f" ({href})"))
            else:
                words += child.content
        token.children = shown or token.children


class AnswerWidget(Markdown):
    """What the agent says, as Markdown that grows."""

    def __init__(self, block: ConversationBlock) -> None:
        super().__init__(classes="words", open_links=False, parser_factory=_parser)
        self.block = block
        self._drawn: str | None = None  # None until there is a place to draw on: Textual mixes up what comes earlier
        self._turn = asyncio.Lock()  # whoever waits here draws all that came meanwhile, in one go

    def on_markdown_table_of_contents_updated(self, event: Markdown.TableOfContentsUpdated) -> None:
        """Textual has drawn its own beginning, which is empty: what is drawn from now on stays."""
        event.stop()
        if self._drawn is None:
            self._drawn = ""
            self.run_worker(self.show(self.block))  # not awaited: it may be removed meanwhile

    async def show(self, block: ConversationBlock) -> None:
        """More of it, or something else."""
        self.block = block
        async with self._turn:
            drawn, text = self._drawn, self.block.text
            if drawn is None or text == drawn or not self.is_attached:
                return
            self._drawn = text
            if not text.startswith(drawn):
                drawn = ""
                await self.update("")
            # Never by `update` alone: Textual takes the last line of what that draws for a whole block.
            await self.append(text[len(drawn) :])

    def fold(self, unfolded: bool) -> None:
        """There is nothing to fold."""


Piece = BlockWidget | AnswerWidget

_KINDS: dict[str, type[BlockWidget]] = {"user": UserWidget, "thought": ThoughtWidget, "tool": ToolWidget}


def make_block_widget(block: ConversationBlock) -> Piece:
    """A new widget for a block."""
    return AnswerWidget(block) if block.kind == "words" else _KINDS.get(block.kind, BlockWidget)(block)
