"""Where people type: several lines, history, the list of what could follow a slash or an @. Knows no agent."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option

from palinurus.cli.tui.complete import CompletionWords, LineCompletion, complete_line, complete_mention, find_mention
from palinurus.cli.tui.early import PLACEHOLDER
from palinurus.cli.tui.history import InputHistory
from palinurus.cli.tui.paste import PasteShelf, find_picture, load_picture
from palinurus.cli.tui.vi import ViState, press_vi
from palinurus.workspace.mentions import list_files

NEWLINE = frozenset({"ctrl+j", "shift+enter", "alt+enter"})
# Keys that mean something to the screen whatever stands in the box.
OUTWARD = frozenset({"escape", "tab", "shift+tab", "ctrl+r", "ctrl+g", "ctrl+v", "alt+up"})
# What Emacs (and every shell) has and Textual has not.
EMACS = {
    "ctrl+b": "cursor_left",
    "ctrl+f": "cursor_right",
    "alt+b": "cursor_word_left",
    "alt+f": "cursor_word_right",
    "alt+d": "delete_word_right",
    "ctrl+underscore": "undo",
}


class Composer(Vertical):
    """The box and its list."""

    class Sent(Message):
        """Somebody pressed Enter. `pictures` as chat.send takes them."""

        def __init__(self, text: str, pictures: list[dict[str, Any]]) -> None:
            super().__init__()
            self.text = text
            self.pictures = pictures

    class Key(Message):
        """A key that means something to the screen when the box has no use for it."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, history: InputHistory) -> None:
        super().__init__(id="composer")
        self.known = CompletionWords()
        self.folder = ""  # whose files are offered after an @
        self.history = history
        self.shelf = PasteShelf()
        self.vi: ViState | None = None  # None: keys as in Emacs
        self._files: list[str] | None = None  # as they were when the @ was typed

    def compose(self) -> ComposeResult:
        """The list stands above the box."""
        menu = CompletionMenu(id="offers", markup=False, compact=True)
        menu.can_focus = False
        yield menu
        yield ComposerBox()

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

    def add(self, text: str) -> None:
        """Put something where the cursor is."""
        self.box.insert(text)

    def on_text_area_changed(self) -> None:
        """Offer what could follow."""
        self.current_menu()

    def current_menu(self) -> CompletionMenu:
        """The list as it is for what stands in the box now: a key may come before the box has told of its change."""
        menu = self.query_one(CompletionMenu)
        text = self.text
        if find_mention(text) is None:
            self._files = None
            menu.offer(text, complete_line(text, self.known))
        else:
            self._files = list_files(self.folder) if self._files is None and self.folder else self._files
            menu.offer(text, complete_mention(text, self._files or ()))
        return menu


class CompletionMenu(OptionList):
    """What could follow. Shown only when there is something."""

    found: tuple[LineCompletion, ...] = ()
    picked = False  # somebody went through the list: Enter takes the marked row then
    _text = ""

    def offer(self, text: str, found: list[LineCompletion]) -> None:
        """Show these for `text`; for a text that has its list already nothing changes."""
        if text == self._text:
            return
        self._text, self.found, self.picked = text, tuple(found), False
        self.clear_options()
        for one in found:
            self.add_option(Option(Content.assemble(one.label, Content.styled(f"  {one.about}", "dim"))))
        self.display = bool(found)
        if found:
            self.highlighted = 0

    def hide(self) -> None:
        """Until something else is typed."""
        self.found, self.display = (), False

    def move(self, down: bool) -> None:
        """To the next row."""
        self.picked = True
        (self.action_cursor_down if down else self.action_cursor_up)()

    def current_completion(self) -> LineCompletion | None:
        """The one that is marked."""
        return self.found[self.highlighted] if self.display and self.found and self.highlighted is not None else None


def _is_beginning(text: str) -> bool:
    return text.startswith("/") and " " not in text


class ComposerBox(TextArea):
    """Enter sends; Ctrl-J, Shift-Enter or a backslash at the end begin a new line."""

    def __init__(self) -> None:
        super().__init__(compact=True, highlight_cursor_line=False, placeholder=PLACEHOLDER)
        self._chord = False  # Ctrl-X was pressed

    @property
    def composer(self) -> Composer:
        """Whose box it is."""
        assert isinstance(self.parent, Composer)
        return self.parent

    async def _on_key(self, event: events.Key) -> None:
        if self._handled(event.key, event.character or ""):
            event.stop()
            event.prevent_default()
        elif bound := self._bindings.key_to_bindings.get(event.key):
            # Textual hands such a key up to the app first: letters that were typed after a backspace would overtake it
            event.stop()
            event.prevent_default()
            await self.run_action(bound[0].action)
        else:
            await super()._on_key(event)

    async def _on_paste(self, event: events.Paste) -> None:
        """Long text becomes a mark; so does a picture that was dropped."""
        event.stop()
        event.prevent_default()
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")  # as terminals send the ends of lines
        shelf, path = self.composer.shelf, find_picture(text)
        try:
            mark = shelf.add_picture(*load_picture(path)) + " " if path else shelf.fold(text)
        except OSError:
            mark = text
        self.insert(mark)

    def _handled(self, key: str, letter: str) -> bool:
        menu = self.composer.current_menu()
        if menu.display and self._menu(menu, key):
            return True
        chord, self._chord = self._chord, key == "ctrl+x" and not self.selected_text
        if self._chord:
            return True
        if chord and key == "ctrl+e":
            return self._tell("ctrl+g")
        if self._vi(key, letter):
            return True
        if key == "enter":
            return self._enter()
        if key in NEWLINE:
            self.insert("\n")
            return True
        if key in EMACS:
            getattr(self, f"action_{EMACS[key]}")()
            return True
        return self._leaves(key)

    def _leaves(self, key: str) -> bool:
        """Keys that go through what was said before, or to the screen."""
        history = self.composer.history
        if key == "up" and self.cursor_location[0] == 0:
            return self._recall(history.back(self.text))
        if key == "down" and self.cursor_location[0] == self.document.line_count - 1:
            return self._recall(history.forward())
        if key in OUTWARD or (key == "ctrl+c" and not self.selected_text) or (key == "ctrl+d" and not self.text):
            return self._tell(key)
        return False

    def _tell(self, key: str) -> bool:
        self.post_message(Composer.Key(key))
        return True

    def _vi(self, key: str, letter: str) -> bool:
        """The keys of vi, where they are wanted. Escape that changes nothing is the screen's."""
        vi = self.composer.vi
        if vi is None or (vi.insert and key != "escape"):
            return False
        lines = self.text.split("\n")
        row, column = self.cursor_location
        at = sum(len(line) + 1 for line in lines[:row]) + column
        now = ViState(self.text, at, insert=vi.insert, pending=vi.pending, kept=vi.kept)
        if not vi.insert and letter == "u":
            self.undo()
            return True
        made = press_vi(now, key if key == "escape" else letter)
        if made is None or (key == "escape" and not vi.insert):
            return False
        self.composer.vi = made
        if made.text != now.text:
            self.replace(made.text, (0, 0), self.document.end)
        before = made.text[: made.at].split("\n")
        self.move_cursor((len(before) - 1, len(before[-1])))
        return True

    def _menu(self, menu: CompletionMenu, key: str) -> bool:
        offer = menu.current_completion()
        if key in ("up", "down"):
            menu.move(key == "down")
        elif key == "escape":
            menu.hide()
        elif offer is not None and (key == "tab" or (key == "enter" and (menu.picked or _is_beginning(self.text)))):
            self.text = offer.line
            self.move_cursor(self.document.end)
        else:  # Enter sends what was typed: only the beginning of a command's name is no line yet
            return False
        return True

    def _enter(self) -> bool:
        composer = self.composer
        if self.text.endswith("\\"):
            self.text = self.text[:-1] + "\n"
            self.move_cursor(self.document.end)
        elif self.text.strip():
            text, self.text = composer.shelf.expand(self.text), ""
            pictures = composer.shelf.take_pictures(text)
            composer.shelf.clear()
            composer.history.add(text)
            composer.vi = composer.vi and ViState("", kept=composer.vi.kept)
            self.post_message(Composer.Sent(text, pictures))
        return True

    def _recall(self, text: str | None) -> bool:
        if text is not None:
            self.text = text
            self.move_cursor(self.document.end)
        return True
