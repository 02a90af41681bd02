"""Where people type: several lines, history, and the list of what could follow a slash. Knows nothing of the agent."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option

from palinurus.cli.tui.complete import CompletionWords, LineCompletion, complete_line
from palinurus.cli.tui.history import InputHistory

NEWLINE = frozenset({"ctrl+j", "shift+enter", "alt+enter"})


class Composer(Vertical):
    """The box and its list."""

    class Sent(Message):
        """Somebody pressed Enter."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Key(Message):
        """A key that means something to the screen when the box has no use for it: escape, ctrl+c, ctrl+d, tab."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, history: InputHistory) -> None:
        super().__init__(id="composer")
        self.known = CompletionWords()
        self._history = history

    def compose(self) -> ComposeResult:
        """The list stands above the box."""
        menu = CompletionMenu(id="offers", markup=False, compact=True)
        menu.can_focus = False
        yield menu
        yield ComposerBox(self._history)

    @property
    def box(self) -> ComposerBox:
        """The text area."""
        return self.query_one(ComposerBox)

    @property
    def text(self) -> str:
        """What stands in the box."""
        return self.box.text

    def set(self, text: str) -> None:
        """Put something into the box, the cursor at its end."""
        self.box.text = text
        self.box.move_cursor(self.box.document.end)

    def on_text_area_changed(self) -> None:
        """Offer what could follow."""
        self.query_one(CompletionMenu).offer(complete_line(self.text, self.known))


class CompletionMenu(OptionList):
    """What could follow. Shown only when there is something."""

    found: tuple[LineCompletion, ...] = ()

    def offer(self, found: list[LineCompletion]) -> None:
        """Show these."""
        self.found = tuple(found)
        self.clear_options()
        for one in found:
            self.add_option(Option(Content.assemble(one.label, Content.styled(f"  {one.about}", "dim"))))
        self.display = bool(found)
        if found:
            self.highlighted = 0

    def current_completion(self) -> LineCompletion | None:
        """The one that is marked."""
        return self.found[self.highlighted] if self.display and self.found and self.highlighted is not None else None


class ComposerBox(TextArea):
    """Enter sends; Ctrl-J, Shift-Enter or a backslash at the end begin a new line."""

    def __init__(self, history: InputHistory) -> None:
        super().__init__(
            compact=True, highlight_cursor_line=False, placeholder="Say something, / for commands, F1 for keys"
        )
        self._history = history

    async def _on_key(self, event: events.Key) -> None:
        if self._handled(event.key):
            event.stop()
            event.prevent_default()
        else:
            await super()._on_key(event)

    def _handled(self, key: str) -> bool:
        menu = self.parent.query_one(CompletionMenu) if self.parent is not None else None
        if menu is not None and menu.display and self._menu(menu, key):
            return True
        if key == "enter":
            return self._enter()
        if key in NEWLINE:
            self.insert("\n")
            return True
        if key == "up" and self.cursor_location[0] == 0:
            return self._recall(self._history.back(self.text))
        if key == "down" and self.cursor_location[0] == self.document.line_count - 1:
            return self._recall(self._history.forward())
        if key in ("escape", "tab", "shift+tab") or (key == "ctrl+c" and not self.selected_text):
            self.post_message(Composer.Key(key))
            return True
        if key == "ctrl+d" and not self.text:
            self.post_message(Composer.Key(key))
            return True
        return False

    def _menu(self, menu: CompletionMenu, key: str) -> bool:
        offer = menu.current_completion()
        if key in ("up", "down"):
            (menu.action_cursor_up if key == "up" else menu.action_cursor_down)()
        elif key == "escape":
            menu.offer([])
        elif key == "tab" or (key == "enter" and offer is not None and offer.line.strip() != self.text.strip()):
            self.text = offer.line if offer is not None else self.text
            self.move_cursor(self.document.end)
        else:
            return False
        return True

    def _enter(self) -> bool:
        if self.text.endswith("\\"):
            self.text = self.text[:-1] + "\n"
            self.move_cursor(self.document.end)
        elif self.text.strip():
            text, self.text = self.text, ""
            self._history.add(text)
            self.post_message(Composer.Sent(text))
        return True

    def _recall(self, text: str | None) -> bool:
        if text is not None:
            self.text = text
            self.move_cursor(self.document.end)
        return True
