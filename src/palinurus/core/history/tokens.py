"""How large a history is, in tokens: four characters each, set right by what providers counted. Pure.

`estimate_message_tokens` and `estimate_tokens` are the bare estimate; `estimate_context_tokens` takes the provider's
own count where there is one. `ModelCalibration` is what was learned of each model: how many real tokens one of ours is,
and how far off that still is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from palinurus.core.types.messages import (
    AssistantMessage,
    ContentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    UserMessage,
)
from palinurus.core.types.usage import TokenUsage

CHARS_PER_TOKEN = 4  # to a token
IMAGE_TOKENS = 1200  # tokens
ESTIMATE_MARGIN = 1.2  # what a bare estimate is multiplied with before something is cut by it
_LEAST = 50  # estimated tokens a measure needs to be worth something
_ODD = 4.0  # a measure further off than this is no measure: the history was cut in between
_MEMORY = 200  # measures after which the oldest weigh little
_TRUST = 2000  # estimated tokens that the starting point (1.0) weighs as much as


def estimate_message_tokens(message: Message) -> int:
    """Tokens of one message, rounded up."""
    content = message.blocks if isinstance(message, UserMessage) else message.content
    return -(-sum(_chars(block) for block in content) // CHARS_PER_TOKEN)


def estimate_tokens(messages: Iterable[Message]) -> int:
    """Tokens of all, by the bare estimate."""
    return sum(estimate_message_tokens(message) for message in messages)


def estimate_context_tokens(messages: Sequence[Message], kept: int = 0, scale: float = 1.0) -> int:
    """Tokens of the whole: the last usage a provider reported plus an estimate of what came after it.

    `kept` is how many of the messages are older than the last compaction: their usage counted another history.
    `scale` is the model's, see `ModelCalibration.scale`.
    """
    after = 0
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if position >= kept and isinstance(message, AssistantMessage) and not message.failed:
            used = count_used_tokens(message.usage)
            if used:
                return used + _scaled(after, scale)
        after += estimate_message_tokens(message)
    return _scaled(after, scale)


def count_used_tokens(usage: TokenUsage) -> int:
    """All tokens of a call, whichever way the provider reported them."""
    return usage.input + usage.output + usage.cacheRead + usage.cacheWrite or usage.totalTokens


class ModelCalibration(msgspec.Struct, frozen=True):
    """What the measures of one model add up to; older ones fade."""

    estimated: float = 0.0  # tokens by the bare estimate
    real: float = 0.0  # tokens as the provider counted
    off: float = 0.0  # of the corrected estimate, in tokens, whichever direction
    count: int = 0  # measures ever

    @property
    def scale(self) -> float:
        """Real tokens to one estimated. Near 1 until enough is known."""
        return (self.real + _TRUST) / (self.estimated + _TRUST)

    @property
    def error(self) -> float | None:
        """How far off the corrected estimate was, as a share of the real count; None if nothing was measured."""
        return self.off / self.real if self.real else None

    def after(self, measure: TokenMeasure) -> ModelCalibration:
        """With one more measure. Its error is what the scale of before would have got wrong."""
        fade = 1 - 1 / _MEMORY
        return ModelCalibration(
            self.estimated * fade + measure.estimated,
            self.real * fade + measure.real,
            self.off * fade + abs(measure.estimated * self.scale - measure.real),
            self.count + 1,
        )


class TokenMeasure(msgspec.Struct, frozen=True):
    """One stretch of a history, estimated and counted."""

    model: str  # provider/model
    estimated: int
    real: int


class CalibrationTable(msgspec.Struct, frozen=True):
    """What is known of each model, by `provider/model`."""

    models: Mapping[str, ModelCalibration] = {}

    def scale(self, model: str) -> float:
        """What to multiply an estimate with; 1.0 for a model nothing is known of."""
        found = self.models.get(model)
        return found.scale if found else 1.0

    def after(self, measures: Iterable[TokenMeasure]) -> CalibrationTable:
        """With these measures learned, in order."""
        models = dict(self.models)
        for measure in measures:
            models[measure.model] = models.get(measure.model, ModelCalibration()).after(measure)
        return CalibrationTable(models) if models != self.models else self


def find_measures(messages: Sequence[Message], start: int = 0) -> Iterator[TokenMeasure]:
    """Measures in a history: how much the provider's count of the input grew from one answer to the next, and what
    lies between, estimated. The prompt and the tools are in both counts and so in neither measure.

    Only answers at `start` or later end a measure. Stretches that tell nothing are left out: another model, thoughts
    (they are not always sent again), images, or a count that shrank.
    """
    last: AssistantMessage | None = None
    between = 0
    for position in range(_before(messages, start), len(messages)):
        message = messages[position]
        size = estimate_message_tokens(message)
        if not isinstance(message, AssistantMessage):
            between += size
            if not isinstance(message.content, str) and any(type(block) is ImageBlock for block in message.content):
                last = None
        elif message.failed or not _input(message.usage):
            last, between = None, 0
        else:
            if last is not None and position >= start and (found := _measure(last, message, between)):
                yield found
            last, between = (None if message.thinking else message), size


def _before(messages: Sequence[Message], start: int) -> int:
    """Where the answer before `start` is."""
    for position in range(min(start, len(messages)) - 1, -1, -1):
        if isinstance(messages[position], AssistantMessage):
            return position
    return 0


def _measure(last: AssistantMessage, now: AssistantMessage, between: int) -> TokenMeasure | None:
    real = _input(now.usage) - _input(last.usage)
    if not last.same_route(now.api, now.provider, now.model) or between < _LEAST or not now.model:
        return None
    if not between / _ODD <= real <= between * _ODD:
        return None
    return TokenMeasure(f"{now.provider}/{now.model}", between, real)


def _input(usage: TokenUsage) -> int:
    return usage.input + usage.cacheRead + usage.cacheWrite


def _scaled(tokens: int, scale: float) -> int:
    return tokens if scale == 1.0 else round(tokens * scale)


def _chars(block: ContentBlock) -> int:
    if isinstance(block, TextBlock):
        return len(block.text)
    if isinstance(block, ThinkingBlock):
        return len(block.thinking)
    if isinstance(block, ImageBlock):
        return IMAGE_TOKENS * CHARS_PER_TOKEN
    try:
        return len(block.name) + len(msgspec.json.encode(block.arguments))
    except (TypeError, ValueError, OverflowError):  # arguments a hook has changed to something JSON cannot carry
        return len(block.name) + len(repr(block.arguments))
