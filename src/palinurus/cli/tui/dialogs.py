"""Questions that wait for a person: the agent's (allow once, always, deny), and ours before the first shell line.

A card never takes the keys by itself: somebody who types must not answer by accident. Tab goes to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from palinurus.cli.render import strip_controls
from palinurus.core.text import format_count

# One list to choose from, with a filter: models, levels, sessions. What is chosen is handed back; nothing is done.


LETTERS = 3  # from which on a filter looks elsewhere too
PAUSE = 0.15  # seconds without a key before it does


class PickerChoice(msgspec.Struct, frozen=True):
    """A row: what it stands for, what people see, what is said beside it."""

    value: str
    label: str
    about: str = ""


def filter_choices(choices: Sequence[PickerChoice], text: str) -> list[PickerChoice]:
    """Those that hold every word of `text` somewhere."""
    wanted = text.lower().split()
    return [c for c in choices if all(word in f"{c.value} {c.label} {c.about}".lower() for word in wanted)]


def cut_around(label: str, text: str, room: int = 160) -> str:
    """The part of a long label in which the first word of `text` is."""
    word = next(iter(text.lower().split()), "")
    at = max(0, label.lower().find(word) - room // 3) if word else 0
    return ("…" if at else "") + label[at : at + room]


class Picker(ModalScreen[str | None]):
    """Gives the value that was chosen, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave", show=False)]

    def __init__(
        self,
        title: str,
        choices: Sequence[PickerChoice],
        current: str = "",
        *,
        typed: str = "",
        around: bool = False,
        more: Callable[[str], Awaitable[list[PickerChoice]]] | None = None,
    ) -> None:
        """`typed` stands in the filter at first; `around`: of long rows the part around the words is shown; `more`:
        what else is found for these words, elsewhere; it stands below."""
        super().__init__()
        self._more = more
        self._typed = typed
        self._around = around
        self._title = title
        self._choices = choices
        self._current = current
        self._shown: list[PickerChoice] = []

    def compose(self) -> ComposeResult:
        """Title, filter, list."""
        with Vertical(id="picker"):
            yield Label(self._title, id="title", markup=False)
            yield Input(self._typed, placeholder="type to filter", compact=True, id="filter")
            yield OptionList(markup=False, compact=True, id="choices")

    def on_mount(self) -> None:
        """The one in force is marked."""
        self.query_one("#choices", OptionList).can_focus = False
        self._fill(self._typed)
        at = next((n for n, choice in enumerate(self._shown) if choice.value == self._current), 0)
        self.query_one("#choices", OptionList).highlighted = at if self._shown else None

    def on_input_changed(self, event: Input.Changed) -> None:
        """Fewer rows."""
        self._typed = event.value
        self._fill(event.value)
        if self._more is not None and len(event.value.strip()) >= LETTERS:
            self.run_worker(self._look(event.value, self._more), group="more", exclusive=True)

    async def _look(self, text: str, more: Callable[[str], Awaitable[list[PickerChoice]]]) -> None:
        await asyncio.sleep(PAUSE)  # who types on makes another look of it
        found = await more(text)
        for listing in self.query("#choices").results(OptionList):  # none once the picker was left
            if text != self._typed:
                return
            at = listing.highlighted
            self._fill(text, found)
            listing.highlighted = at if at is not None else 0 if self._shown else None

    def _fill(self, text: str, more: Sequence[PickerChoice] = ()) -> None:
        listing = self.query_one("#choices", OptionList)
        listing.clear_options()
        self._shown = filter_choices(self._choices, text)
        seen = {choice.value for choice in self._shown}
        self._shown += [choice for choice in more if choice.value not in seen]
        for choice in self._shown:
            mark = "● " if choice.value == self._current else "  "
            label = cut_around(choice.label, text) if self._around else choice.label
            listing.add_option(Option(Content.assemble(mark, label, Content.styled(f"  {choice.about}", "dim"))))
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


LINES = 8  # of the command that is asked about

_KEYS = {"o": "allow-once", "y": "allow-once", "a": "allow-always", "d": "deny", "n": "deny"}
_WORDS = {"allow-once": "o allow once", "allow-always": "a always", "deny": "d deny"}


class ScreenQuestion(msgspec.Struct, frozen=True):
    """What is asked. `id` as the gateway calls it."""

    id: str
    title: str
    body: str
    why: str = ""
    allowed: Sequence[str] = ("allow-once", "deny")
    facts: Sequence[str] = ()  # the values that decide, with where they came from


def parse_question(payload: Mapping[str, Any], session: str = "") -> ScreenQuestion:
    """From exec.approval.requested or plugin.approval.requested, seen from `session`. All of it is shown as text."""
    asked = payload.get("request") or {}
    place = str(asked.get("sessionKey") or session)
    elsewhere = f" (asked in {strip_controls(place)})" if place != session else ""
    body = strip_controls(str(asked.get("command") or asked.get("description") or ""))
    where = f" in {strip_controls(str(asked['cwd']))}" if asked.get("cwd") else ""
    title = (strip_controls(str(asked.get("title") or "")) or f"The agent wants to run{where}:") + elsewhere
    facts = tuple(strip_controls(str(line)) for line in asked.get("facts") or ())
    lines = (strip_controls(str(line)) for line in (asked.get("commandAnalysis") or {}).get("warningLines") or ())
    why = strip_controls(str(asked.get("warningText") or "")) or "\n".join(one for one in lines if one not in facts)
    allowed = tuple(asked.get("allowedDecisions") or ("allow-once", "deny"))
    return ScreenQuestion(str(payload["id"]), title, body, why, allowed=allowed, facts=facts)


class QuestionCard(Static, can_focus=True):
    """The oldest question that is open."""

    class Decided(Message):
        """Somebody answered."""

        def __init__(self, question: ScreenQuestion, decision: str) -> None:
            super().__init__()
            self.question = question
            self.decision = decision

    class Left(Message):
        """Somebody goes back to typing."""

    def __init__(self) -> None:
        super().__init__("", id="card", markup=False)
        self.question: ScreenQuestion | None = None
        self._more = 0
        self.display = False

    def ask(self, question: ScreenQuestion | None, more: int = 0) -> None:
        """Show this one; None: there is none."""
        if question == self.question and question is not None:
            return
        self.question = question
        self._more = more
        self.display = question is not None
        self._draw()

    def watch_has_focus(self, _has_focus: bool) -> None:
        """The keys are ours now, or no more. (When `on_focus` is called, `has_focus` is still what it was.)"""
        super().watch_has_focus(_has_focus)
        self._draw()

    def _draw(self) -> None:
        question = self.question
        if question is None:
            return
        lines = question.body.split("\n")
        cut = [f"… {format_count(len(lines) - LINES, 'line')} more"] if len(lines) > LINES else []
        body = "\n".join([*question.facts, *(f"  {line}" for line in (*lines[:LINES], *cut))])
        why = f"\n{question.why}" if question.why else ""
        keys = "   ".join(_WORDS[word] for word in question.allowed if word in _WORDS)
        how = f"{keys}   Esc later" if self.has_focus else f"Tab, then: {keys}"
        rest = f"   ({self._more} more wait)" if self._more else ""
        title, answer = Content.styled(question.title, "bold"), Content.styled(how + rest, "$accent")
        self.update(Content.assemble(title, f"\n{body}{why}\n", answer))

    def on_key(self, event: events.Key) -> None:
        """One key is an answer; escape and tab go back to the box."""
        asked = self.question
        decision = _KEYS.get(event.key)
        if asked is not None and decision in asked.allowed:
            event.stop()
            self.post_message(self.Decided(asked, str(decision)))
        elif event.key in ("escape", "tab", "shift+tab"):
            event.stop()
            event.prevent_default()
            self.post_message(self.Left())
