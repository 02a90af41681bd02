"""One list to choose from, with a filter: models, levels, sessions. What is chosen is handed back; nothing is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList
from textual.widgets.option_list import Option


class PickerChoice(NamedTuple):
    """A row: what it stands for, what people see, what is said beside it."""

    value: str
    label: str
    about: str = ""


def filter_choices(choices: Sequence[PickerChoice], text: str) -> list[PickerChoice]:
    """Those that hold every word of `text` somewhere."""
    wanted = text.lower().split()
    return [c for c in choices if all(word in f"{c.value} {c.label} {c.about}".lower() for word in wanted)]


class Picker(ModalScreen[str | None]):
    """Gives the value that was chosen, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave", show=False)]

    def __init__(self, title: str, choices: Sequence[PickerChoice], current: str = "") -> None:
        super().__init__()
        self._title = title
        self._choices = choices
        self._current = current
        self._shown: list[PickerChoice] = []

    def compose(self) -> ComposeResult:
        """Title, filter, list."""
        with Vertical(id="picker"):
            yield Label(self._title, id="title", markup=False)
            yield Input(placeholder="type to filter", compact=True, id="filter")
            yield OptionList(markup=False, compact=True, id="choices")

    def on_mount(self) -> None:
        """The one in force is marked."""
        self.query_one("#choices", OptionList).can_focus = False
        self._fill("")
        at = next((n for n, choice in enumerate(self._shown) if choice.value == self._current), 0)
        self.query_one("#choices", OptionList).highlighted = at if self._shown else None

    def on_input_changed(self, event: Input.Changed) -> None:
        """Fewer rows."""
        self._fill(event.value)

    def _fill(self, text: str) -> None:
        listing = self.query_one("#choices", OptionList)
        listing.clear_options()
        self._shown = filter_choices(self._choices, text)
        for choice in self._shown:
            mark = "● " if choice.value == self._current else "  "
            listing.add_option(Option(Content.assemble(mark, choice.label, Content.styled(f"  {choice.about}", "dim"))))
        listing.highlighted = 0 if self._shown else None

    def on_key(self, event: events.Key) -> None:
        """The list moves while the filter has the keys."""
        listing = self.query_one("#choices", OptionList)
        moves: dict[str, Callable[[], None]] = {
            "up": listing.action_cursor_up,
            "down": listing.action_cursor_down,
            "pageup": listing.action_page_up,
            "pagedown": listing.action_page_down,
        }
        if event.key in moves:
            event.stop()
            moves[event.key]()

    def on_input_submitted(self) -> None:
        """Enter takes the marked row."""
        at = self.query_one("#choices", OptionList).highlighted
        self.dismiss(self._shown[at].value if at is not None and self._shown else None)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """So does a click."""
        self.dismiss(self._shown[event.option_index].value)

    def action_leave(self) -> None:
        """Nothing was chosen."""
        self.dismiss(None)
