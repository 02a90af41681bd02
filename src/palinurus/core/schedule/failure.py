"""Why a job failed, as far as its words tell: reasons that pass, for which it may be tried again. Pure."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from palinurus.patterns import compile_late

FailureReason: TypeAlias = Literal["rate_limit", "overloaded", "network", "timeout", "server_error"]

# The first that fits counts.
_WORDS: dict[FailureReason, re.Pattern[str]] = {
    "rate_limit": compile_late(r"rate.?limit|too many requests|\b429\b|quota", re.IGNORECASE),
    "overloaded": compile_late(r"overload|\b529\b|at capacity", re.IGNORECASE),
    "timeout": compile_late(r"time.?out|timed out|did not answer|took too long", re.IGNORECASE),
    "network": compile_late(r"network|connect|unreachable|cannot be reached|resolve|\bcut\b", re.IGNORECASE),
    "server_error": compile_late(r"\b5\d\d\b|server error|internal error|bad gateway|unavailable", re.IGNORECASE),
}


def find_failure_reason(text: str) -> FailureReason | None:
    """The reason; None for one that does not pass by itself, or that nobody knows."""
    return next((name for name, words in _WORDS.items() if words.search(text)), None)
