"""One budget's account: what is spent, what is held for calls under way, and whether another call fits. Pure.

A call that fits even if it turns out as dear as it can be is let in. One that fits only if it turns out as usual is
let in alone, so a limit is overstepped by one call's surprise at most, however many run at once.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

AccountVerdict: TypeAlias = Literal["yes", "alone", "wait", "no"]


class CallAmount(NamedTuple):
    """Of one call: what it usually takes, and the most it can take."""

    likely: float
    most: float


class SpendingAccount:
    """Dollars, or tokens."""

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

    def add(self, spent: float) -> bool:
        """Something was spent. True the first time the soft limit is reached."""
        self.spent += spent
        if self.soft is None or self.spent < self.soft or self._warned:
            return False
        self._warned = True
        return True
