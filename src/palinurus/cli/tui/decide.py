"""Questions that wait for a person: the agent's (allow once, always, deny), and ours before the first shell line.

A card never takes the keys by itself: somebody who types must not answer by accident. Tab goes to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from palinurus.cli.render import strip_controls

LINES = 8  # of the command that is asked about

_KEYS = {"o": "allow-once", "y": "allow-once", "a": "allow-always", "d": "deny", "n": "deny"}
_WORDS = {"allow-once": "o allow once", "allow-always": "a always", "deny": "d deny"}


class ScreenQuestion(NamedTuple):
    """What is asked. `id` as the gateway calls it."""

    id: str
    title: str
    body: str
    why: str = ""
    allowed: Sequence[str] = ("allow-once", "deny")


def parse_question(payload: Mapping[str, Any], session: str = "") -> ScreenQuestion:
    """From exec.approval.requested or plugin.approval.requested, seen from `session`. All of it is shown as text."""
    asked = payload.get("request") or {}
    place = str(asked.get("sessionKey") or session)
    elsewhere = f" (asked in {strip_controls(place)})" if place != session else ""
    body = strip_controls(str(asked.get("command") or asked.get("description") or ""))
    where = f" in {strip_controls(str(asked['cwd']))}" if asked.get("cwd") else ""
    title = (strip_controls(str(asked.get("title") or "")) or f"The agent wants to run{where}:") + elsewhere
    why = strip_controls(str(asked.get("warningText") or ""))
    return ScreenQuestion(
        str(payload["id"]), title, body, why, tuple(asked.get("allowedDecisions") or ("allow-once", "deny"))
    )


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

    def on_focus(self) -> None:
        """The keys are ours now."""
        self._draw()

    def on_blur(self) -> None:
        """… and no more."""
        self._draw()

    def _draw(self) -> None:
        question = self.question
        if question is None:
            return
        lines = question.body.split("\n")
        cut = [f"… {len(lines) - LINES} more lines"] if len(lines) > LINES else []
        body = "\n".join([f"  {line}" for line in (*lines[:LINES], *cut)])
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
