"""How large a history is, in tokens: four characters each, set right by what the provider last counted. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from palinurus.core.types.messages import Assistant, Block, Image, Message, Text, Thinking, User
from palinurus.core.types.usage import Usage

CHARS = 4  # to a token
IMAGE = 1200  # tokens
MARGIN = 1.2  # what a bare estimate is multiplied with before something is cut by it


def estimate(message: Message) -> int:
    """Tokens of one message, rounded up."""
    content = message.blocks if isinstance(message, User) else message.content
    return -(-sum(_chars(block) for block in content) // CHARS)


def context(messages: Sequence[Message], kept: int = 0) -> int:
    """Tokens of the whole: the last usage a provider reported plus an estimate of what came after it.

    `kept` is how many of the messages are older than the last compaction: their usage counted another history.
    """
    after = 0
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if position >= kept and isinstance(message, Assistant) and not message.failed:
            used = total(message.usage)
            if used:
                return used + after
        after += estimate(message)
    return after


def total(usage: Usage) -> int:
    """All tokens of a call, whichever way the provider reported them."""
    return usage.input + usage.output + usage.cacheRead + usage.cacheWrite or usage.totalTokens


def _chars(block: Block) -> int:
    if isinstance(block, Text):
        return len(block.text)
    if isinstance(block, Thinking):
        return len(block.thinking)
    if isinstance(block, Image):
        return IMAGE * CHARS
    try:
        return len(block.name) + len(msgspec.json.encode(block.arguments))
    except (TypeError, ValueError, OverflowError):  # arguments a hook has changed to something JSON cannot carry
        return len(block.name) + len(repr(block.arguments))
