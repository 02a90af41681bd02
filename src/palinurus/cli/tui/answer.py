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
        self._kept: list[Content] = []  # lines for good that do not fill a widget yet
        self._full = 0  # widgets that are full for good
        self._shown: list[tuple[Static, Content]] = []  # all of them, with what they show

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
        if again:
            self._done, self._before, self._gap, self._kept, self._full = 0, "", False, [], 0
        self._drawn = text
        rest = self._before + text[self._done :]
        found = _load("open-block")(rest)
        if found.start > len(self._before):
            self._kept += self._place(rest[: found.start])
            self._done += found.start - len(self._before)
            self._before, self._gap = found.before, found.apart
            rest = self._before + text[self._done :]
        with self.app.batch_update():
            self._spread([*self._kept, *self._place(rest)])
        whole = len(self._kept) // PIECE
        self._full, self._kept = self._full + whole, self._kept[whole * PIECE :]

    def _place(self, text: str) -> list[Content]:
        drawn: list[Content] = _load("markdown-lines")(text, self._width)
        return [Content(""), *drawn] if self._gap else drawn

    def _spread(self, lines: list[Content]) -> None:
        """Lines over widgets, from the first that is not full for good. One that shows the same already costs nothing:
        of a paragraph that grows only the end is drawn again."""
        at = self._full
        for start in range(0, max(1, len(lines)), PIECE):
            drawn = Content("\n").join(lines[start : start + PIECE])
            if at == len(self._shown):
                self._shown.append((Static(drawn, markup=False), drawn))
                self.mount(self._shown[at][0])
            elif not self._shown[at][1].is_same(drawn):
                self._shown[at][0].update(drawn)
                self._shown[at] = self._shown[at][0], drawn
            at += 1
        for piece, _ in self._shown[at:]:
            piece.remove()
        del self._shown[at:]


@cache
def _load(name: str) -> Any:
    """Markdown is loaded with the first answer: it is a tenth of the time to the prompt."""
    return load_part(PARTS[name])
