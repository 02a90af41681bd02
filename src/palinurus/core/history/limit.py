"""How much of a history is sent: the last so many turns of the user. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from palinurus.core.types.messages import Message, User


def turns(messages: Sequence[Message]) -> int:
    """How many user messages there are."""
    return sum(isinstance(m, User) for m in messages)


def keep_turns(messages: Sequence[Message], count: int | None) -> tuple[Message, ...]:
    """The last `count` user messages and everything after the first of them; None or 0 keeps all.

    A valid history stays valid: the cut is never between a call and its result.
    """
    given = tuple(messages)
    if not count or count < 0:
        return given
    for position in range(len(given) - 1, -1, -1):
        if isinstance(given[position], User):
            count -= 1
            if not count:
                return given[position:]
    return given
