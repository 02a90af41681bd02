"""Where a history may be cut: never between a call and its result, if possible between two turns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from palinurus.core.history.tokens import estimate_message_tokens
from palinurus.core.types.messages import AssistantMessage, Message, ToolResult, UserMessage


class HistoryCut(NamedTuple):
    """`first` is the first message that stays; `turn` where the turn begins that is cut in two (`first`: none is)."""

    first: int
    turn: int

    @property
    def splits(self) -> bool:
        return self.turn < self.first


def find_cut_points(messages: Sequence[Message]) -> list[bool]:
    """For each position: may a history begin there? Calls that failed or were never answered hold nothing."""
    free = [not isinstance(m, ToolResult) for m in messages]
    asked: dict[str, int] = {}
    for position, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and not message.failed:
            asked.update((call.id, position) for call in message.calls)
        elif isinstance(message, ToolResult) and (start := asked.pop(message.toolCallId, None)) is not None:
            for inside in range(start + 1, position + 1):
                free[inside] = False
    return free


def find_cut(messages: Sequence[Message], keep: int, start: int = 0, *, least: bool = True) -> HistoryCut | None:
    """The cut that keeps at most about `keep` tokens at the end; None if nothing would go.

    Messages before `start` are an earlier summary. With `least` the last message (with the call it answers) always
    stays: it is what the model is about to answer.
    """
    free = find_cut_points(messages)
    first, kept = len(messages), 0
    while first > start and kept + estimate_message_tokens(messages[first - 1]) <= keep:
        first -= 1
        kept += estimate_message_tokens(messages[first])
    last = next((at for at in range(len(messages) - 1, -1, -1) if free[at]), 0)
    while first < len(messages) and not free[first]:
        first += 1
    if least:
        first = min(first, last)
    first = _whole(messages, first, keep)
    if first <= start:
        return None
    return HistoryCut(first, _turn(messages, first, start))


def _whole(messages: Sequence[Message], first: int, keep: int) -> int:
    """A beginning of a turn a little later, if at least half of what may stay still does."""
    kept = 0
    best = first
    for position in range(len(messages) - 1, first - 1, -1):
        kept += estimate_message_tokens(messages[position])
        if isinstance(messages[position], UserMessage) and kept * 2 >= keep:
            best = position
    return best


def _turn(messages: Sequence[Message], first: int, start: int) -> int:
    """Where the turn begins that the message at `first` belongs to."""
    if first >= len(messages) or isinstance(messages[first], UserMessage):
        return first
    for position in range(first - 1, start - 1, -1):
        if isinstance(messages[position], UserMessage):
            return position
    return start
