"""Old tool results made smaller in the request; the file keeps them. Modes: off, cache-ttl, aggressive. Pure.

A provider's prompt cache holds as long as old messages keep their bytes, so they change only at declared points.
cache-ttl: where the pause before a user's message was longer than the cache lives; each such point is found again in
the history by its time stamps, so what was pruned there stays pruned. aggressive: whenever another few turns are old.
Both touch nothing but the content of results, so calls and results stay together.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

import msgspec

from palinurus.core.history import tokens
from palinurus.core.history.truncate import find_result_handle, make_read_hint
from palinurus.core.types.messages import AssistantMessage, ImageBlock, Message, TextBlock, ToolResult, UserMessage

PruningMode: TypeAlias = Literal["off", "cache-ttl", "aggressive"]
CLEARED = "[Old tool result content cleared]"
UNSEEN = "[image of an old tool result, no longer included]"
IMAGE = 8000  # characters an image counts as
_NOTE = 200  # characters of the longest note


class PruningRules(msgspec.Struct, frozen=True):
    """agents.defaults.contextPruning. `most`, `head_ratio` and `after_turns` are aggressive's; cache-ttl follows them
    where the config sets them."""

    mode: PruningMode = "off"
    ttl: float = 300.0  # seconds
    keep_assistants: int = 3
    soft_ratio: float = 0.3
    hard_ratio: float = 0.5
    least: int = 50_000  # prunable characters below which nothing is cleared
    soft_most: int = 4000
    head: int = 1500
    tail: int = 1500
    clear: bool = True
    placeholder: str = CLEARED
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    most: int = 2000  # maxCharsPerToolResult
    head_ratio: float = 0.6
    after_turns: int = 10

    def prunable(self, tool: str) -> bool:
        """Deny wins; an empty allow list means every tool."""
        name = tool.lower()
        if any(fnmatchcase(name, pattern) for pattern in self.deny):
            return False
        return not self.allow or any(fnmatchcase(name, pattern) for pattern in self.allow)


def prune_results(
    messages: Sequence[Message], rules: PruningRules, window: int, now: int | None = None
) -> tuple[Message, ...]:
    """The history with old results pruned. `window` in tokens; `now` is the time stamp of the message that follows
    the history, None if none does.
    """
    if rules.mode == "cache-ttl":
        return _Pauses(messages, rules, window).run(now)
    return _aged(messages, rules) if rules.mode == "aggressive" else tuple(messages)


def trim_result(result: ToolResult, most: int, head: int, tail: int) -> ToolResult:
    """Head and tail of its text, and a note; images give way to a mark. Small results come back as they are."""
    text = result.text
    pictures = sum(isinstance(block, ImageBlock) for block in result.content)
    if len(text) > max(most, _NOTE):
        room = max(most - _NOTE, 0)
        if head + tail > room:
            head, tail = room * head // (head + tail), room * tail // (head + tail)
        kept = find_result_handle(text)
        more = f" Whole: {make_read_hint(kept)}." if kept else ""
        ending = text[len(text) - tail :] if tail else ""
        text = f"{text[:head]}\n...\n{ending}\n[Trimmed: first {head} and last {tail} of {len(text)} characters.{more}]"
    elif not pictures:
        return result
    content = (TextBlock(text),) if text else ()
    return msgspec.structs.replace(result, content=content + (TextBlock(UNSEEN),) * pictures, details=None)


def _aged(messages: Sequence[Message], rules: PruningRules) -> tuple[Message, ...]:
    """Results of turns that have `after_turns` behind them. The border moves several turns at once."""
    users = [at for at, message in enumerate(messages) if type(message) is UserMessage]
    step = max(1, rules.after_turns // 2)
    old = (len(users) - rules.after_turns) // step * step
    if old <= 0:
        return tuple(messages)
    border = users[old] if old < len(users) else len(messages)
    head = round(rules.most * rules.head_ratio)
    return tuple(
        [
            trim_result(m, rules.most, head, rules.most - head)
            if at < border and type(m) is ToolResult and rules.prunable(m.toolName)
            else m
            for at, m in enumerate(messages)
        ]
    )


class _Pauses:
    """One walk over a history. What has been looked at for trimming or clearing is not looked at again, so a history
    with many pauses takes no longer than one with few."""

    def __init__(self, messages: Sequence[Message], rules: PruningRules, window: int) -> None:
        self._out = list(messages)
        self._rules = rules
        self._room = max(window, 1) * tokens.CHARS_PER_TOKEN
        self._sizes: list[int] = []
        self._total = 0
        self._assistants: list[int] = []
        self._first = -1  # the first user message
        self._touched = 0  # when the cache was last used
        self._soft = self._hard = 0  # results before these have been trimmed, cleared
        self._clearable: list[int] = []  # trimmed ones that may still be cleared, oldest first
        self._prunable = 0  # characters in those

    def run(self, now: int | None) -> tuple[Message, ...]:
        for at in range(len(self._out)):
            message = self._out[at]
            kind = type(message)
            if kind is UserMessage:
                self._pause(at, message.timestamp)
                if self._first < 0:
                    self._first = self._soft = at
            elif kind is AssistantMessage:
                self._assistants.append(at)
                self._touched = message.timestamp or self._touched
            size = _size(message)
            self._sizes.append(size)
            self._total += size
        if now is not None:
            self._pause(len(self._out), now)
        return tuple(self._out)

    def _pause(self, at: int, then: int) -> None:
        """Prune what is before `at` if the cache had run out by `then`."""
        if not self._touched or then - self._touched <= self._rules.ttl * 1000:
            return
        keep = self._rules.keep_assistants
        if self._first < 0 or len(self._assistants) < keep or self._total <= self._rules.soft_ratio * self._room:
            return
        cutoff = self._assistants[-keep] if keep else at
        self._trim(cutoff)
        if self._rules.clear and self._total > self._rules.hard_ratio * self._room:
            self._clear()

    def _trim(self, cutoff: int) -> None:
        rules = self._rules
        for at in range(self._soft, cutoff):
            message = self._out[at]
            if type(message) is not ToolResult or not rules.prunable(message.toolName):
                continue
            self._replace(at, trim_result(message, rules.soft_most, rules.head, rules.tail))
            self._clearable.append(at)
            self._prunable += self._sizes[at]
        self._soft = max(self._soft, cutoff)

    def _clear(self) -> None:
        if self._prunable < self._rules.least:
            return
        while self._hard < len(self._clearable) and self._total >= self._rules.hard_ratio * self._room:
            at = self._clearable[self._hard]
            message = self._out[at]
            self._hard += 1
            self._prunable -= self._sizes[at]
            assert isinstance(message, ToolResult)
            kept = find_result_handle(message.text)
            text = f"{self._rules.placeholder} {make_read_hint(kept)}" if kept else self._rules.placeholder
            if len(text) < self._sizes[at]:
                self._replace(at, msgspec.structs.replace(message, content=(TextBlock(text),), details=None))

    def _replace(self, at: int, result: ToolResult) -> None:
        self._out[at] = result
        size = _size(result)
        self._total += size - self._sizes[at]
        self._sizes[at] = size


def _size(message: Message) -> int:
    """Characters."""
    if type(message) is ToolResult:
        return sum([len(b.text) if type(b) is TextBlock else IMAGE for b in message.content])
    return tokens.estimate_message_tokens(message) * tokens.CHARS_PER_TOKEN
