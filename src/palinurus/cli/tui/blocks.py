"""The pieces of the conversation as widgets: one per kind of block. They show what they are given
and decide nothing.
"""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Iterable, Sequence
from functools import partial

from textual import events
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from palinurus.cli.render import format_milliseconds, tell_tool_state
from palinurus.cli.tui.answer import AnswerWidget
from palinurus.cli.tui.conversation import ConversationBlock
from palinurus.cli.tui.diff import WIDE, draw_diff
from palinurus.cli.tui.told import MARKS, STYLES, ShownStep

# The conversation on the screen: blocks by id, the newest below, following the end until somebody scrolls up.

QUESTION = "🔒"  # how a card begins: what decides stands in its first lines
MOST = 400  # pieces on the screen; older ones go (they are on disk)


class ConversationLog(VerticalScroll, can_focus=False):
    """Holds the pieces."""

    class TopReached(Message):
        """Somebody scrolled up to the first piece."""

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
        """Show all of every tool and thought, or no longer. What stood at the top of the view stays there."""
        self.unfolded = not self.unfolded
        at_end = self.scroll_offset.y >= self.max_scroll_y
        top = next((one for one in self._pieces.values() if one.virtual_region.bottom > self.scroll_offset.y), None)
        before = top.virtual_region.y - self.scroll_offset.y if top is not None else 0
        for shown in self._pieces.values():
            shown.fold(self.unfolded)

        def stay() -> None:
            if top is not None and not at_end:
                self.scroll_to(y=top.virtual_region.y - before, animate=False)

        self.call_after_refresh(stay)

    def find(self, ident: str) -> bool:
        """Go to a message, and mark it. False: it is not on the screen."""
        pieces = (one for name, one in self._pieces.items() if name == ident or name.startswith(f"{ident}:"))
        found = next(pieces, None)
        if found is None:
            return False
        for shown in self._pieces.values():
            shown.set_class(shown is found, "found")
        self.release_anchor()
        self.scroll_to_widget(found, animate=False, top=True)
        return True

    def watch_scroll_y(self, old: float, new: float) -> None:
        """Whoever comes to the top by the wheel wants to see what was before."""
        super().watch_scroll_y(old, new)
        if new <= 0 < old:
            self.post_message(self.TopReached())

    def list_answers(self) -> list[str]:
        """The words of the agent, the newest last."""
        return [one.block.text for one in self._pieces.values() if isinstance(one, AnswerWidget)]


SETTLING = (0.02, 0.15, 0.5)  # seconds
FOLDED = 6  # lines of a tool's output that are shown unasked
UNFOLDED = 400
DIFF = 20  # lines of a change
STEPS = 12  # of a plan
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
        """Another state of the same block. A note that has nothing left to say is gone."""
        self.block = block
        self.display = block.kind != "note" or bool(block.text)
        self.update(self.draw_block(block))

    def fold(self, unfolded: bool) -> None:
        """Show all, or the beginning. Most have nothing to fold."""


class UserWidget(BlockWidget):
    """What somebody said. All its lines begin below the first."""

    wide = 0  # columns, once it has a place

    def draw_block(self, block: ConversationBlock) -> Content:
        said = Content.assemble(block.text, Content.styled(_STATES.get(block.state, ""), "dim"))
        lines = said.wrap(self.wide) if self.wide > 0 else said.split("\n", allow_blank=True)
        return Content.assemble(Content.styled("› ", "bold"), Content("\n  ").join(lines))

    def on_resize(self, event: events.Resize) -> None:
        """Other lines for another width."""
        before, self.wide = self.wide, self.content_size.width - 2
        if before != self.wide:
            self.update(self.draw_block(self.block))


class FoldableWidget(BlockWidget):
    """Something with more in it than is shown at once."""

    unfolded = False
    wide = 0  # columns, once it has a place

    def fold(self, unfolded: bool) -> None:
        self.unfolded = unfolded
        self.update(self.draw_block(self.block))

    def on_click(self) -> None:
        """A click on one shows it whole."""
        self.fold(not self.unfolded)

    def on_resize(self, event: events.Resize) -> None:
        """A change is drawn otherwise where there is room."""
        before, self.wide = self.wide, event.size.width
        beside = self.block.diff and (before >= WIDE - 10 or self.wide >= WIDE - 10)
        if beside or (before != self.wide and any(len(line) > self.wide - 5 for line in self.block.text.split("\n"))):
            self.update(self.draw_block(self.block))


class ToldWidget(FoldableWidget):
    """What the program told the agent: a line of it, all of it on a click."""

    def draw_block(self, block: ConversationBlock) -> Content:
        whole = f"\n{block.text}" if self.unfolded else ""
        return Content.assemble(Content.styled("✉ ", "$primary"), block.head, Content.styled(whole, "dim"))


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
        if block.plan and block.state != "failed":
            return Content.assemble("⚙ ", Content.styled("plan", "bold"), *draw_plan(block.plan, STEPS))
        if block.diff:
            return Content.assemble(head, *self._changed(block.diff))
        if running and block.text.startswith(QUESTION):  # it stands in the card above the line
            return Content.assemble(head, Content.styled("\n  waits for your answer", "$warning"))
        lines = block.text.rstrip().split("\n") if block.text.strip() else []
        most = UNFOLDED if self.unfolded else FOLDED
        rest = len(lines) - most
        told = [f"  {part}" for line in lines[-most:] for part in self._hang(line)]
        if rest > 0:
            told.insert(0, f"  … {rest} more above (Ctrl-O)")
        return Content.assemble(head, Content.styled("\n" + "\n".join(told), "dim")) if told else head

    def _hang(self, line: str) -> list[str]:
        """A line too long for its place, in lines that begin below it."""
        room = self.wide - 5  # of the mark at the left, and of what lies around
        return textwrap.wrap(line, room, break_on_hyphens=False) if room >= 20 and len(line) > room else [line]

    def _changed(self, diff: str) -> Iterable[Content]:
        """Lines of a diff from its top, coloured: what was there, what is there now."""
        lines = draw_diff(diff, self.wide - 2)
        most = UNFOLDED if self.unfolded else DIFF
        for line in lines[:most]:
            yield Content.assemble("\n  ", line)
        if len(lines) > most:
            yield Content.styled(f"\n  … {len(lines) - most} more below (Ctrl-O)", "dim")


def draw_plan(steps: Sequence[ShownStep], most: int) -> Iterable[Content]:
    """Its steps, each on a line of its own; of a long plan those around the one that is being done."""
    now = next((at for at, one in enumerate(steps) if one.status != "completed"), 0)
    first = max(0, min(now - most // 3, len(steps) - most))
    if first:
        yield Content.styled(f"\n  … {first} before", "dim")
    for one in steps[first : first + most]:
        mark = MARKS.get(one.status, "☐")
        yield Content.styled(f"\n  {mark} {one.step}", STYLES.get(one.status, ""))
    if len(steps) > first + most:
        yield Content.styled(f"\n  … {len(steps) - first - most} more", "dim")


Piece = BlockWidget | AnswerWidget

_KINDS: dict[str, type[BlockWidget]] = {
    "user": UserWidget,
    "thought": ThoughtWidget,
    "tool": ToolWidget,
    "told": ToldWidget,
}


def make_block_widget(block: ConversationBlock) -> Piece:
    """A new widget for a block."""
    return AnswerWidget(block) if block.kind == "words" else _KINDS.get(block.kind, BlockWidget)(block)
