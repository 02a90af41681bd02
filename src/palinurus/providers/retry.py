"""When a failed call is made again: one row per kind of failure. Pure decisions; the stream does the waiting.

Only before anything was shown. Kinds without a row are final: asking again would not help.
"""

from __future__ import annotations

from typing import NamedTuple

from palinurus.core.types.model import FailureKind, ModelFailure

LONGEST_WAIT = 60.0  # a provider that asks for more gets no second call from here: another model may answer sooner


class RetryRow(NamedTuple):
    again: int  # calls after the first
    wait: float  # seconds before the second call; doubled each time


RETRIES: dict[FailureKind, RetryRow] = {
    "rate_limit": RetryRow(3, 2.0),
    "overloaded": RetryRow(3, 1.0),
    "server": RetryRow(3, 0.5),
    "network": RetryRow(2, 0.5),
    "cut": RetryRow(2, 0.5),
    "malformed": RetryRow(1, 0.5),
    "timeout": RetryRow(1, 0.5),
}


def choose_wait(failure: ModelFailure, attempt: int, chance: float) -> float | None:
    """Seconds until the next call after the `attempt`-th (from 1); None: no more. `chance` in [0, 1) spreads."""
    row = RETRIES.get(failure.kind)
    if row is None or attempt > row.again:
        return None
    if failure.retry_after is not None:
        return None if failure.retry_after > LONGEST_WAIT else failure.retry_after + 0.1 * chance
    backoff: float = row.wait * 2 ** (attempt - 1)
    return min(LONGEST_WAIT, backoff * (0.5 + chance))
