"""What a model call used, and what that cost."""

from __future__ import annotations

import msgspec


class TokenCost(msgspec.Struct, frozen=True, omit_defaults=False):
    """US dollars."""

    input: float = 0.0
    output: float = 0.0
    cacheRead: float = 0.0
    cacheWrite: float = 0.0
    total: float = 0.0


class TokenUsage(msgspec.Struct, frozen=True):
    """Tokens of one call. `input` counts what was neither read from nor written to a cache.

    `cost` is None when no price is known: unpriced is not free.
    """

    input: int = 0
    output: int = 0
    cacheRead: int = 0
    cacheWrite: int = 0
    totalTokens: int = 0
    cost: TokenCost | None = None

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.input + other.input,
            self.output + other.output,
            self.cacheRead + other.cacheRead,
            self.cacheWrite + other.cacheWrite,
            self.totalTokens + other.totalTokens,
            _sum(self.cost, other.cost),
        )


def _sum(a: TokenCost | None, b: TokenCost | None) -> TokenCost | None:
    if a is None or b is None:
        return a or b
    return TokenCost(
        a.input + b.input,
        a.output + b.output,
        a.cacheRead + b.cacheRead,
        a.cacheWrite + b.cacheWrite,
        a.total + b.total,
    )
