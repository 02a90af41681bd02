"""What the agent says, as Markdown that grows: blocks that are whole are drawn once, the last one again and again."""

from __future__ import annotations

from functools import cache
from typing import Any

from textual import events
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from palinurus.cli.main import PARTS, load_part
from palinurus.cli.tui.conversation import ConversationBlock

FRAME = 0.06  # seconds between two drawings of one answer: what comes meanwhile is drawn in one go
PIECE = 40  # lines of one widget; a widget per paragraph would cost more than the words


class AnswerWidget(Vertical):
    """One answer. `block` is what is to be shown, `_drawn` what was."""

    def __init__(self, block: ConversationBlock) -> None:
        super().__init__(classes="words")
        self.block = block
        self._drawn = ""
        self._width = 0
        self._done = 0  # characters that are drawn for good
        self._before = ""  # what the rest needs to be drawn alone
        self._gap = False  # a blank line comes before it
        self._late = False  # a drawing is due
        self._whole = Content("")  # what the last widget but one shows
        self._lines = 0
        self._pieces: list[Static] = []

    async def show(self, block: ConversationBlock) -> None:
        """More of it, or something else; drawn soon."""
        self.block = block
        if self._width and not self._late and self.is_attached:
            self._late = True
            self.set_timer(FRAME, self._redraw)

    def on_resize(self, event: events.Resize) -> None:
        """The first place to draw on, or another."""
        if event.size.width != self._width:
            self._width = event.size.width
            self._draw(again=True)

    def fold(self, unfolded: bool) -> None:
        """There is nothing to fold."""

    def _redraw(self) -> None:
        self._late = False
        if self.is_attached:
            self._draw(again=not self.block.text.startswith(self._drawn))

    def _draw(self, *, again: bool) -> None:
        text = self.block.text
        if text == self._drawn and not again:
            return
        with self.app.batch_update():
            if again:
                self._begin()
            self._drawn = text
            rest = self._before + text[self._done :]
            found = _load("open-block")(rest)
            if found.start > len(self._before):
                self._close(rest[: found.start])
                self._done += found.start - len(self._before)
                self._before, self._gap = found.before, found.apart
                rest = self._before + text[self._done :]
            self._pieces[-1].update(self._place(rest))

    def _begin(self) -> None:
        self._done, self._before, self._gap = 0, "", False
        self._whole, self._lines = Content(""), 0
        self._pieces.clear()
        self.remove_children()
        self._add()

    def _add(self) -> None:
        self._pieces.append(Static("", markup=False))
        self.mount(self._pieces[-1])

    def _place(self, text: str) -> Content:
        drawn = _load("markdown")(text, self._width)
        return Content.assemble("\n" if self._gap else "", drawn)

    def _close(self, text: str) -> None:
        """Draw what will not change any more, and begin another widget if this one is long."""
        drawn = self._place(text)
        self._lines += drawn.plain.count("\n") + 1
        self._whole = Content.assemble(self._whole, "\n" if self._whole.plain else "", drawn)
        if len(self._pieces) > 1 and self._lines <= PIECE:
            self._pieces[-2].update(self._whole)
        else:
            self._pieces[-1].update(drawn)
            self._whole, self._lines = drawn, drawn.plain.count("\n") + 1
            self._add()


@cache
def _load(name: str) -> Any:
    """Markdown is loaded with the first answer: it is a tenth of the time to the prompt."""
    return load_part(PARTS[name])
