"""A history every provider accepts: each tool call has exactly one result, right after the message that asked.

`is_valid_history` is the proof, `repair_history` the way there: real results are moved to their calls, missing ones are
said to be missing, the rest is dropped. Works in memory; the file on disk keeps what happened. Unchanged messages stay
the same objects, and what is done to a message depends only on those before it and on results, so the repaired history
keeps its beginning as it grows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, ThinkingBlock, ToolCall, ToolResult

UNKNOWN_OUTCOME = "interrupted, outcome unknown"

# The results of one message, in the order of its calls; None where none has been found.
_Answers: TypeAlias = "list[ToolResult | None]"
# Calls of one id that wait for a result: where it goes, and the call as it will be sent.
_Waiting: TypeAlias = "deque[tuple[_Answers, int, ToolCall]]"


def repair_history(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The nearest valid history. Repairing twice changes nothing; a valid tuple is returned as it is."""
    given = tuple(messages)
    return given if is_valid_history(given) else _Repair().run(given)


def is_valid_history(messages: Sequence[Message]) -> bool:
    """Is every call answered once, in order and at once, every id used once, and nothing empty or orphaned?"""
    used: set[str] = set()
    owed: list[str] = []  # ids of the last message's calls
    answered = 0
    for message in messages:
        if isinstance(message, ToolResult):
            if answered == len(owed) or message.toolCallId != owed[answered] or not message.toolName:
                return False
            answered += 1
            continue
        if answered != len(owed):
            return False
        if isinstance(message, AssistantMessage):
            ids = _owed(message, used)
            if ids is None:
                return False
            owed, answered = ids, 0
    return answered == len(owed)


def _owed(message: AssistantMessage, used: set[str]) -> list[str] | None:
    """Ids this message wants answered, noted as used; None if the message itself is not in order."""
    ids: list[str] = []
    worth = False
    for block in message.content:
        if isinstance(block, ToolCall):
            ident = block.id
            if ident in used or _malformed(block):
                return None
            used.add(ident)
            ids.append(ident)
        elif not worth:
            worth = _worth(block, message)
    if ids:
        return None if message.failed else ids
    return ids if worth else None


def _malformed(call: ToolCall) -> bool:
    return not call.id.strip() or not call.name.strip()


def _worth(block: TextBlock | ThinkingBlock, message: AssistantMessage) -> bool:
    """Does this block justify a message? Thoughts that were cut off lead nowhere and may lack their signature."""
    if isinstance(block, TextBlock):
        return not block.text.isspace() and block.text != ""
    return message.stopReason in ("stop", "toolUse")


class _Repair:
    """One pass over a history."""

    def __init__(self) -> None:
        self._out: list[Message | _Answers] = []
        self._waiting: dict[str, _Waiting] = {}  # by the id on file: calls of the last message that used it
        self._calls: dict[int, tuple[AssistantMessage, tuple[ToolCall, ...]]] = {}
        self._used: set[str] = set()
        self._renamed: dict[str, int] = {}

    def run(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        for message in messages:
            if isinstance(message, AssistantMessage):
                self._assistant(message)
            elif isinstance(message, ToolResult):
                self._result(message)
            else:
                self._out.append(message)
        return tuple(self._flat())

    def _assistant(self, message: AssistantMessage) -> None:
        calls = message.calls
        for call in calls:
            self._waiting[call.id] = deque()  # whatever waited under this id is answered by nothing that follows
        answers: _Answers = []
        content: list[TextBlock | ThinkingBlock | ToolCall] = []
        kept: list[ToolCall] = []
        for block in message.content:
            if not isinstance(block, ToolCall):
                content.append(block)
            elif not message.failed and not _malformed(block):
                call = self._unique(block)
                self._waiting[block.id].append((answers, len(kept), call))
                answers.append(None)
                kept.append(call)
                content.append(call)
        if not kept and not any(_worth(b, message) for b in content if not isinstance(b, ToolCall)):
            return
        if len(content) != len(message.content) or any(a is not b for a, b in zip(kept, calls, strict=True)):
            message = msgspec.structs.replace(message, content=tuple(content))
        self._out.append(message)
        if kept:
            self._calls[len(self._out)] = (message, tuple(kept))
            self._out.append(answers)

    def _unique(self, call: ToolCall) -> ToolCall:
        """The call under an id nobody used before."""
        ident = call.id
        while ident in self._used:
            number = self._renamed.get(call.id, 1) + 1
            self._renamed[call.id] = number
            ident = f"{call.id}_{number}"
        self._used.add(ident)
        return call if ident == call.id else msgspec.structs.replace(call, id=ident)

    def _result(self, result: ToolResult) -> None:
        waiting = self._waiting.get(result.toolCallId)
        if not waiting:
            return  # an orphan, a duplicate, or the result of a call that was dropped
        answers, position, call = waiting.popleft()
        if result.handed:  # only a place that is held: what comes later takes it
            waiting.append((answers, position, call))
        name = result.toolName or call.name
        if call.id != result.toolCallId or name != result.toolName:
            result = msgspec.structs.replace(result, toolCallId=call.id, toolName=name)
        answers[position] = result

    def _flat(self) -> list[Message]:
        flat: list[Message] = []
        for position, message in enumerate(self._out):
            if not isinstance(message, list):
                flat.append(message)
                continue
            asked, calls = self._calls[position]
            flat += [answer or _missing(call, asked) for answer, call in zip(message, calls, strict=True)]
        return flat


def _missing(call: ToolCall, asked: AssistantMessage) -> ToolResult:
    return ToolResult(call.id, call.name, (TextBlock(UNKNOWN_OUTCOME),), isError=True, timestamp=asked.timestamp)
