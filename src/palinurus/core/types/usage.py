"""What a model call used, and what that cost."""

from __future__ import annotations

import msgspec
from msgspec.structs import astuple


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
        names = ("input", "output", "cacheRead", "cacheWrite", "totalTokens")
        tokens = {name: getattr(self, name) + getattr(other, name) for name in names}
        return TokenUsage(**tokens, cost=_sum(self.cost, other.cost))


def _sum(a: TokenCost | None, b: TokenCost | None) -> TokenCost | None:
    if a is None or b is None:
        return a or b
    return TokenCost(*map(sum, zip(astuple(a), astuple(b), strict=True)))
