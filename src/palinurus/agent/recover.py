"""After a failed model call: another key, another model, a mended request, or the end. One table.

The provider layer has already waited and retried what a moment's patience mends; what arrives here is final for
that key. Each step returns whether another try makes sense; the first of a row that does is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from palinurus.agent.plan.runplan import ModelCandidate, RunLimits
from palinurus.config.sections.credentials import AuthSettings
from palinurus.core.history.repair import repair_history
from palinurus.core.levels.thinking import BASE_LEVELS, LEVEL_RANKS
from palinurus.core.text import cut_end
from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.core.types.model import FailureKind, ModelFailure
from palinurus.patterns import compile_late

Action: TypeAlias = Literal["rotate", "next", "lower", "images", "repair", "compact", "words", "again"]


class RecoveryStep(msgspec.Struct, frozen=True):
    """A step, and how often it may be taken for one model in one answer."""

    action: Action
    tries: int


_NEXT = RecoveryStep("next", 1)
DEFAULT_LIMITS = RunLimits()

# Kinds without a row end the answer: asking anybody again would not help, or nobody wants it.
TABLE: dict[FailureKind, tuple[RecoveryStep, ...]] = {
    "auth": (RecoveryStep("rotate", 8), _NEXT),
    "billing": (RecoveryStep("rotate", 8), _NEXT),
    "rate_limit": (RecoveryStep("rotate", 1), _NEXT),
    "overloaded": (RecoveryStep("rotate", 1), _NEXT),
    "timeout": (RecoveryStep("rotate", 1), _NEXT),
    "server": (_NEXT,),
    "network": (_NEXT,),
    "cut": (_NEXT,),
    "not_found": (_NEXT,),
    "config": (_NEXT,),
    "malformed": (RecoveryStep("words", 1), RecoveryStep("again", 1), _NEXT),
    "overflow": (RecoveryStep("images", 2), RecoveryStep("compact", 3)),
    "format": (RecoveryStep("lower", 8), RecoveryStep("images", 2), RecoveryStep("repair", 1), _NEXT),
}
# Rows whose number of other keys the config says.
ROTATIONS: dict[FailureKind, Callable[[AuthSettings], int]] = {
    "rate_limit": lambda auth: auth.rate_limited,
    "overloaded": lambda auth: auth.overloaded,
}

EMPTY = ModelFailure("malformed", "the model returned an empty answer")
IMAGE_GONE = "[an image was left out here: it is too large for the model's provider]"

_ABOUT = 120  # characters of a call and of its result
_THINKING = compile_late(
    r"(?:reasoning|thinking)(?:[._ ]?(?:effort|level|budget|budget_tokens|type|mode|config))?\b.{0,80}?"
    r"(?:not (?:be )?support|unsupported|not allowed|must be|invalid value)"
    r"|(?:unsupported|invalid) value.{0,60}?(?:reasoning|thinking|effort)"
    r"|(?:not support|unsupported).{0,40}?(?:reasoning|thinking|effort)",
    re.I | re.S,
)
_BLOCKS = compile_late(r"signature|(?:redacted_)?thinking`?'?\"? blocks?|found `?tool_use", re.I)
_OFFERED = compile_late(
    r"(?:supported|allowed|valid|permitted) (?:values|levels|efforts)\b(?: are| is)?:?(.{1,200})", re.I | re.S
)
_IMAGE = compile_late(
    r"image.{0,80}?(?:exceed|too (?:large|big)|larger than|maximum)|(?:exceed|too (?:large|big)).{0,40}?image",
    re.I | re.S,
)


class Recovery:
    """The tries of one answer: which model, which level and which messages come next."""

    def __init__(
        self,
        choices: tuple[ModelCandidate, ...],
        messages: Sequence[Message],
        at: int = 0,
        *,
        compacts: bool = False,
        limits: RunLimits = DEFAULT_LIMITS,
    ) -> None:
        self._limits = limits
        self._choices = choices
        self._used: dict[Action, int] = {}
        self._levels: set[str] = set()
        self._tries = 1
        self._compacts = compacts  # there is somebody who can make the conversation smaller
        self.at = at
        self.choice = choices[at]
        self.messages = messages
        self.notices: list[str] = []
        self.only_words = False  # tools are not to be called: they did their work, and the answer is missing
        self._steps: dict[Action, Callable[[ModelFailure], bool]] = {
            "rotate": _rotates,
            "next": self._next,
            "lower": self._lower,
            "images": self._images,
            "repair": self._repair,
            "compact": self._compact,
            "words": self._words,
            "again": lambda failure: not self.only_words,
        }

    @property
    def last(self) -> bool:
        """Is no other model left?"""
        return self.at + 1 >= len(self._choices)

    def again(self, failure: ModelFailure, *, shown: bool) -> Action | None:
        """Prepare the next try and say what was changed. None: give up. What people have seen is never said twice."""
        self._tries += 1
        auth, provider = self._limits.auth, self.choice.model.ref.provider
        keys = sum(profile.provider == provider for profile in auth.profiles.values())
        if shown or self._tries > self._limits.retries.limit(keys):
            return None
        for row in TABLE.get(failure.kind, ()):
            used, told = self._used.get(row.action, 0), ROTATIONS.get(failure.kind)
            most = told(auth) if told and row.action == "rotate" else row.tries
            if used < most and self._steps[row.action](failure):
                if row.action != "next":  # which has begun a new count
                    self._used[row.action] = used + 1
                return row.action
        return None

    def _next(self, failure: ModelFailure) -> bool:
        if self.last:
            return False
        self.at += 1
        self.choice = self._choices[self.at]
        self._used, self._levels, self.only_words = {}, set(), False
        return True

    def _lower(self, failure: ModelFailure) -> bool:
        """The provider does not take the thinking level: the nearest it does, by its own words if it names any."""
        now = self.choice.level.level
        if now == "off" or not _THINKING.search(failure.message) or _BLOCKS.search(failure.message):
            return False
        self._levels.add(now)
        level = choose_lower_level(
            now, find_named_levels(failure.message), self.choice.levels or BASE_LEVELS, self._levels
        )
        if level is None:
            return False
        reason = f"{now} was refused by the provider"
        decision = msgspec.structs.replace(self.choice.level, level=level, reason=reason)
        self.choice = msgspec.structs.replace(self.choice, level=decision)
        return True

    def _images(self, failure: ModelFailure) -> bool:
        """First the largest image goes, then all: better a conversation without a picture than none."""
        if not _IMAGE.search(failure.message):
            return False
        sizes = [
            len(b.data)
            for m in self.messages
            if not isinstance(m, AssistantMessage)
            for b in _blocks(m)
            if isinstance(b, ImageBlock)
        ]
        if not sizes:
            return False
        limit = max(sizes) if not self._used.get("images") else 0
        self.messages = tuple(_without(m, limit) for m in self.messages)
        told = f"⚠️ An image was too large for {self.choice.model.ref.provider} and was left out."
        if told not in self.notices:
            self.notices.append(told)
        return True

    def _repair(self, failure: ModelFailure) -> bool:
        """A request the provider calls invalid is our fault: order and pairs set right, thoughts left out. If that
        changes nothing, the same request would fail the same way."""
        plain = tuple(_plain(m) for m in self.messages)
        mended = repair_history(plain)
        changed = mended != tuple(self.messages)
        if changed and _acting(self.messages) and self.choice.level.level != "off":
            # Thoughts may be missing only where none are asked for.
            decision = msgspec.structs.replace(self.choice.level, level="off", reason="a refused request was mended")
            self.choice = msgspec.structs.replace(self.choice, level=decision)
        self.messages = mended
        return changed

    def _words(self, failure: ModelFailure) -> bool:
        """Small models end with nothing once the work is done: asked for words alone, most have some."""
        self.only_words = failure == EMPTY and bool(describe_work(self.messages))
        return self.only_words

    def _compact(self, failure: ModelFailure) -> bool:
        """It does not fit: whoever asks for the answer has it compacted and puts the result into `messages`."""
        return self._compacts

    @property
    def compactions(self) -> int:
        """How often that was asked for, for this model."""
        return self._used.get("compact", 0)


def _rotates(failure: ModelFailure) -> bool:
    return failure.rotate


def find_named_levels(message: str) -> tuple[str, ...]:
    """The levels an error text says would be taken."""
    found = _OFFERED.search(message)
    words = re.findall(r"[a-z]+", found[1].lower()) if found else []
    return tuple(dict.fromkeys("off" if w == "none" else w for w in words if w in LEVEL_RANKS or w == "none"))


def choose_lower_level(now: str, said: Sequence[str], offered: Sequence[str], tried: set[str]) -> str | None:
    """The next level to try: the highest below `now` that is taken, else the lowest above it; None: no more."""
    rank = LEVEL_RANKS.get(now, 0)
    fresh = sorted(
        (lv for lv in said or offered if lv in LEVEL_RANKS and lv not in tried), key=lambda lv: LEVEL_RANKS[lv]
    )
    below = [lv for lv in fresh if LEVEL_RANKS[lv] <= rank]
    above = [lv for lv in fresh if LEVEL_RANKS[lv] > rank] if said else []
    if below:
        return below[-1]
    if above:
        return above[0]
    return "off" if "off" not in tried else None


def format_fallback(selected: str, active: str, why: str) -> str:
    """What people read when another model answers."""
    return f"↪️ Model Fallback: {active} (selected {selected}; {why.replace('_', ' ')})"


def _acting(messages: Sequence[Message]) -> bool:
    """Are we between tool calls of one turn?"""
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            return False
        if isinstance(message, AssistantMessage) and message.calls:
            return True
    return False


def describe_work(messages: Sequence[Message]) -> str:
    """What tools did since a person last spoke, for an answer that nobody gives; "" if the last one failed."""
    at = next((i for i in range(len(messages) - 1, -1, -1) if isinstance(messages[i], UserMessage)), -1)
    calls = {c.id: c for m in messages[at + 1 :] if isinstance(m, AssistantMessage) for c in m.calls}
    results = [m for m in messages[at + 1 :] if isinstance(m, ToolResult) and m.toolCallId in calls]
    if not results or results[-1].isError:
        return ""
    lines = [_describe_result(calls[result.toolCallId], result) for result in results if not result.isError]
    return "\n".join(("The model said nothing more. What was done:", *lines))


def _describe_result(call: ToolCall, result: ToolResult) -> str:
    on = next((value for value in call.arguments.values() if isinstance(value, str) and value.strip()), "")
    said = next((line for line in result.text.splitlines() if line.strip()), "")
    about = " ".join((call.name, *on.split()))
    return f"- {cut_end(about, _ABOUT)}: {cut_end(said.strip(), _ABOUT)}" if said else f"- {cut_end(about, _ABOUT)}"


def _plain(message: Message) -> Message:
    """Without thoughts and without anything that only its writer can read."""
    if not isinstance(message, AssistantMessage):
        return message
    content: list[TextBlock | ThinkingBlock | ToolCall] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            content.append(TextBlock(block.text) if block.textSignature is not None else block)
        elif isinstance(block, ToolCall):
            signed = block.thoughtSignature is not None
            content.append(msgspec.structs.replace(block, thoughtSignature=None) if signed else block)
    if len(content) == len(message.content) and all(a is b for a, b in zip(content, message.content, strict=True)):
        return message
    return msgspec.structs.replace(message, content=tuple(content))


def _blocks(message: Message) -> Sequence[object]:
    return message.blocks if isinstance(message, UserMessage) else message.content


def _without(message: Message, limit: int) -> Message:
    """Images of `limit` characters and more replaced by a word about them."""
    if isinstance(message, AssistantMessage) or not any(isinstance(b, ImageBlock) for b in _blocks(message)):
        return message
    blocks = message.blocks if isinstance(message, UserMessage) else message.content
    kept = tuple(TextBlock(IMAGE_GONE) if isinstance(b, ImageBlock) and len(b.data) >= limit else b for b in blocks)
    return msgspec.structs.replace(message, content=kept)
