"""When a failed call is made again: one row per kind of failure. Pure decisions; the stream does the waiting.

Only before anything was shown. Kinds without a row are final: asking again would not help.
"""

from __future__ import annotations

from typing import NamedTuple

from palinurus.core.types.model import FailureKind, ModelFailure

LONGEST = 60.0  # a provider that asks for more gets no second call from here: another model may answer sooner


class Row(NamedTuple):
    again: int  # calls after the first
    wait: float  # seconds before the second call; doubled each time


TABLE: dict[FailureKind, Row] = {
    "rate_limit": Row(3, 2.0),
    "overloaded": Row(3, 1.0),
    "server": Row(3, 0.5),
    "network": Row(2, 0.5),
    "cut": Row(2, 0.5),
    "malformed": Row(1, 0.5),
    "timeout": Row(1, 0.5),
}


def wait_for(failure: ModelFailure, attempt: int, chance: float) -> float | None:
    """Seconds until the next call after the `attempt`-th (from 1); None: no more. `chance` in [0, 1) spreads."""
    row = TABLE.get(failure.kind)
    if row is None or attempt > row.again:
        return None
    if failure.retry_after is not None:
        return None if failure.retry_after > LONGEST else failure.retry_after + 0.1 * chance
    backoff: float = row.wait * 2 ** (attempt - 1)
    return min(LONGEST, backoff * (0.5 + chance))
