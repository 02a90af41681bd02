"""After a failed model call: again, with the next model, with less history, or not at all. A table.

The provider layer has already waited and retried what a moment's patience mends; what arrives here is final
for that model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from palinurus.agent.plan import Choice
from palinurus.core.history.limit import keep_turns, turns
from palinurus.core.history.repair import repair
from palinurus.core.types.messages import Message
from palinurus.core.types.model import Failure, FailureKind

Action: TypeAlias = Literal["next", "repair", "shrink", "again", "stop"]

ACTIONS: dict[FailureKind, Action] = {
    "auth": "next",
    "billing": "next",
    "rate_limit": "next",
    "overloaded": "next",
    "server": "next",
    "timeout": "next",
    "network": "next",
    "cut": "next",
    "not_found": "next",
    "config": "next",
    "refused": "stop",
    "overflow": "shrink",
    "format": "repair",
    "malformed": "again",
    "aborted": "stop",
}

# How often each may be tried in one answer.
TRIES: dict[Action, int] = {"next": 16, "repair": 1, "shrink": 3, "again": 1, "stop": 0}


class Recovery:
    """The tries of one answer: which model and which messages come next."""

    def __init__(self, choices: tuple[Choice, ...], messages: Sequence[Message]) -> None:
        self._choices = choices
        self._at = 0
        self._used: dict[Action, int] = {}
        self.messages = messages

    @property
    def choice(self) -> Choice:
        return self._choices[self._at]

    def again(self, failure: Failure, *, shown: bool) -> bool:
        """Prepare the next try. False: give up. What people have already seen is never said twice."""
        if shown:
            return False
        action = ACTIONS[failure.kind]
        self._used[action] = self._used.get(action, 0) + 1
        if self._used[action] > TRIES[action]:
            return action == "again" and self._next()
        if action == "next":
            return self._next()
        if action == "repair":
            return self._repair()
        return self._shrink() if action == "shrink" else True

    def _next(self) -> bool:
        if self._at + 1 >= len(self._choices):
            return False
        self._at += 1
        return True

    def _repair(self) -> bool:
        """Once: a request the provider calls invalid is our fault; a repaired history may pass, if it differs."""
        mended = repair(tuple(self.messages))
        changed = mended != tuple(self.messages)
        self.messages = mended
        return changed or self._next()

    def _shrink(self) -> bool:
        """Drop the older half of the turns; the current one always stays."""
        count = turns(self.messages)
        if count < 2:
            return False
        self.messages = keep_turns(self.messages, max(1, count // 2))
        return True
