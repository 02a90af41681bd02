"""Where people type: several lines, history, the list of what could follow a slash or an @. Knows no agent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option

from palinurus.workspace.mentions import find_files, list_files

# What was typed before: up and down, kept in the file that the plain chat uses too (one line a message).

MOST = 1000


class InputHistory:
    """`path` "": nothing is kept."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._lines: list[str] = []
        self._at = 0
        self._draft = ""
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                self._lines = [line for line in file.read().splitlines() if line.strip()][-MOST:]
        except OSError:
            pass  # none yet
        self._at = len(self._lines)

    def add(self, text: str) -> None:
        """Something was sent. A disk that cannot keep it loses nothing but the convenience."""
        if not self._lines or self._lines[-1] != text:
            self._lines.append(text)
            self._keep(text)
        self._at = len(self._lines)

    def _keep(self, text: str) -> None:
        if not self._path:
            return
        try:
            handle = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(" ".join(text.split("\n")) + "\n")
        except OSError:
            self._path = ""

    def back(self, now: str) -> str | None:
        """The message before; None at the first. What is being typed is remembered."""
        if self._at == 0:
            return None
        if self._at == len(self._lines):
            self._draft = now
        self._at -= 1
        return self._lines[self._at]

    def forward(self) -> str | None:
        """The message after; at the end what was being typed. None beyond."""
        if self._at >= len(self._lines):
            return None
        self._at += 1
        return self._lines[self._at] if self._at < len(self._lines) else self._draft


# What could follow what was typed: commands after a slash, then the words that some of them take. Pure.

SHOWN = 8

OURS = (
    ("/sessions", "switch to another session (Ctrl-P)"),
    ("/models", "choose the model (Ctrl-L)"),
    ("/keys", "what the keys do (F1)"),
    ("/exit", "leave (Ctrl-D)"),
)


class LineCompletion(msgspec.Struct, frozen=True):
    """A way to go on: what the line becomes, and what people see."""

    line: str
    label: str
    about: str = ""


class CompletionWords(msgspec.Struct, frozen=True):
    """What can be typed. `arguments`: command -> the words it takes."""

    commands: Sequence[tuple[str, str]] = OURS
    arguments: Mapping[str, Sequence[str]] = {}


def gather_completion_words(
    commands: Iterable[Mapping[str, Any]], models: Iterable[str], levels: Iterable[str]
) -> CompletionWords:
    """From the gateway's lists."""
    told = [(f"/{row['name']}", str(row.get("description") or "")) for row in commands]
    ours = [row for row in OURS if row[0] not in {name for name, _ in told}]
    arguments = {"/model": ("default", *models), "/think": ("default", *levels)}
    return CompletionWords((*sorted(told), *ours), arguments)


def complete_line(text: str, what: CompletionWords) -> list[LineCompletion]:
    """For a line that begins with a slash and has one line. A command typed whole offers nothing."""
    if not text.startswith("/") or "\n" in text:
        return []
    name, space, rest = text.partition(" ")
    if space and name in what.arguments:
        found = [word for word in what.arguments[name] if rest.lower() in word.lower() and word != rest]
        return [LineCompletion(f"{name} {word}", word) for word in found[:SHOWN]]
    wanted = text.lower()
    if any(command == wanted for command, _ in what.commands):
        return []
    starts = [LineCompletion(f"{c} ", c, about) for c, about in what.commands if c.startswith(wanted)]
    return starts[:SHOWN]


# Files of the workspace after an @, which becomes the path itself: tools take that as it is, and a picture goes along.


def find_mention(text: str) -> str | None:
    """What follows the @ that the text ends with; None if it ends otherwise."""
    word = text[max(text.rfind(" "), text.rfind("\n")) + 1 :]
    return word[1:].removeprefix("./") if word.startswith("@") else None


def complete_mention(text: str, files: Sequence[str]) -> list[LineCompletion]:
    """Files whose path has the letters of the last word in their order; the nearest first."""
    wanted = find_mention(text) or ""
    before = text[: text.rindex("@")]
    return [LineCompletion(f"{before}./{path} ", path) for path in find_files(files, wanted, SHOWN)]


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
        self.folder = ""  # whose files are offered after an @
        self._files: list[str] | None = None  # as they were when the @ was typed
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

    def __init__(self, history: InputHistory) -> None:
        super().__init__(
            compact=True,
            highlight_cursor_line=False,
            placeholder="Say something, / for commands, @ for files, F1 for keys",
        )
        self._history = history

    async def _on_key(self, event: events.Key) -> None:
        if self._handled(event.key):
            event.stop()
            event.prevent_default()
        else:
            await super()._on_key(event)

    def _handled(self, key: str) -> bool:
        menu = self.parent.current_menu() if isinstance(self.parent, Composer) else None
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
