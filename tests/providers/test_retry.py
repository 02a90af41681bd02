"""When a call is made again."""

from __future__ import annotations

import pytest

from palinurus.core.types.model import ModelFailure
from palinurus.providers.retry import LONGEST, TABLE, wait_for


@pytest.mark.parametrize("kind", ["auth", "billing", "overflow", "format", "not_found", "refused", "aborted", "config"])
def test_what_asking_again_does_not_help(kind: str) -> None:
    assert wait_for(ModelFailure(kind, ""), 1, 0.5) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", list(TABLE))
def test_waits_grow_are_spread_and_end(kind: str) -> None:
    failure, row = ModelFailure(kind, ""), TABLE[kind]  # type: ignore[index,arg-type]
    waits = [wait_for(failure, n, 0.5) for n in range(1, row.again + 1)]
    assert waits == [row.wait * 2**n for n in range(row.again)]
    assert wait_for(failure, row.again + 1, 0.5) is None
    low, high = wait_for(failure, 1, 0.0), wait_for(failure, 1, 0.999)
    assert low is not None and high is not None and low < row.wait < high


def test_the_provider_s_wish_counts_up_to_a_minute() -> None:
    assert wait_for(ModelFailure("rate_limit", "", retry_after=LONGEST), 1, 0.0) == LONGEST
    assert wait_for(ModelFailure("rate_limit", "", retry_after=LONGEST + 1), 1, 0.0) is None
    assert wait_for(ModelFailure("auth", "", retry_after=1), 1, 0.0) is None
