"""Whether a call fits an account, and how large a call is. Pure; `budget.py` has the accounts."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from palinurus.core.history import tokens
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.usage import TokenUsage

USUAL = 1_000  # tokens of output

AccountVerdict: TypeAlias = Literal["yes", "alone", "wait", "no"]


class CallAmount(msgspec.Struct, frozen=True):
    """Of one call: what it usually takes, and the most it can take."""

    likely: float
    most: float


class SpendingAccount:
    """Dollars, or tokens: what is spent, what is held for calls under way, whether another call fits. Pure.

    A call that fits even if it turns out as dear as it can be is let in. One that fits only if it turns out as usual is
    let in alone, so a limit is overstepped by one call's surprise at most, however many run at once.
    """

    def __init__(self, soft: float | None = None, hard: float | None = None) -> None:
        self.soft = soft
        self.hard = hard
        self.spent = 0.0
        self.held = 0.0
        self.calls = 0  # under way
        self._warned = False

    def fits(self, amount: CallAmount) -> AccountVerdict:
        """May a call of this size begin?"""
        if self.hard is None:
            return "yes"
        if self.spent >= self.hard or self.spent + amount.likely > self.hard:
            return "no"
        if self.spent + self.held + amount.most <= self.hard:
            return "yes"
        return "wait" if self.calls else "alone"

    def hold(self, amount: CallAmount) -> None:
        """A call begins."""
        self.held += amount.most
        self.calls += 1

    def settle(self, amount: CallAmount, spent: float) -> bool:
        """It has ended. True: the soft limit is reached, and nobody has been told."""
        self.calls -= 1
        self.held = self.held - amount.most if self.calls else 0.0
        return self.add(spent)

    def sync(self, spent: float) -> None:
        """So much was spent, by whomever."""
        self.spent = spent
        self._warned = self._warned or (self.soft is not None and spent >= self.soft)

    def add(self, spent: float) -> bool:
        """Something was spent. True the first time the soft limit is reached."""
        self.spent += spent
        if self.soft is None or self.spent < self.soft or self._warned:
            return False
        self._warned = True
        return True


def estimate_tokens(request: ModelRequest) -> CallAmount:
    """Tokens."""
    given, most = _input(request), _output(request)
    return CallAmount(given + min(USUAL, most), given + most)


def estimate_dollars(request: ModelRequest) -> CallAmount:
    """Dollars; nothing when there is no price."""
    price = request.model.price
    if price is None:
        return CallAmount(0.0, 0.0)
    given, most = _input(request), _output(request)
    likely = TokenUsage(given, min(USUAL, most))
    # Nothing is dearer than input that is all written to a cache.
    dear = TokenUsage(output=most, cacheWrite=given) if price.cacheWrite > price.input else TokenUsage(given, most)
    return CallAmount(price.compute_cost(likely).total, price.compute_cost(dear).total)


def _input(request: ModelRequest) -> int:
    known = tokens.estimate_context_tokens(request.messages)
    bare = not any(getattr(m, "usage", None) and tokens.count_used_tokens(m.usage) for m in request.messages)  # type: ignore[union-attr]
    if not bare:
        return known
    around = len(request.prompt.text) + sum(len(t.description) + len(str(t.parameters)) for t in request.tools)
    return int((known + around / tokens.CHARS_PER_TOKEN) * tokens.ESTIMATE_MARGIN)


def _output(request: ModelRequest) -> int:
    return max(1, request.max_tokens or request.model.max_tokens)
