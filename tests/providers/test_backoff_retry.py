"""When a call is made again."""

from __future__ import annotations

import pytest

from palinurus.core.types.model import ModelFailure
from palinurus.providers.backoff import LONGEST_WAIT, RETRIES, choose_wait


@pytest.mark.parametrize("kind", ["auth", "billing", "overflow", "format", "not_found", "refused", "aborted", "config"])
def test_what_asking_again_does_not_help(kind: str) -> None:
    assert choose_wait(ModelFailure(kind, ""), 1, 0.5) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", list(RETRIES))
def test_waits_grow_are_spread_and_end(kind: str) -> None:
    failure, row = ModelFailure(kind, ""), RETRIES[kind]  # type: ignore[index,arg-type]
    waits = [choose_wait(failure, n, 0.5) for n in range(1, row.again + 1)]
    assert waits == [row.wait * 2**n for n in range(row.again)]
    assert choose_wait(failure, row.again + 1, 0.5) is None
    low, high = choose_wait(failure, 1, 0.0), choose_wait(failure, 1, 0.999)
    assert low is not None and high is not None and low < row.wait < high


def test_the_provider_s_wish_counts_up_to_a_minute() -> None:
    assert choose_wait(ModelFailure("rate_limit", "", retry_after=LONGEST_WAIT), 1, 0.0) == LONGEST_WAIT
    assert choose_wait(ModelFailure("rate_limit", "", retry_after=LONGEST_WAIT + 1), 1, 0.0) is None
    assert choose_wait(ModelFailure("auth", "", retry_after=1), 1, 0.0) is None
