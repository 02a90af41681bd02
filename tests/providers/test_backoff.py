"""How long keys rest, and after what."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.config.sections.credentials import AuthSettings
from palinurus.core.types.model import FailureKind, ModelFailure
from palinurus.providers.backoff import (
    HOUR,
    LONGEST_REST,
    MINUTE,
    RESTS,
    WORDS,
    CooldownRules,
    KeyHealth,
    measure_rest,
    record_failure,
    record_success,
)
from palinurus.providers.rotation import make_cooldown_rules

KINDS = get_args(FailureKind)
NOW = 1_000_000_000_000


def series(kind: FailureKind, times: int, rules: CooldownRules | None = None) -> list[int]:
    health, now, out = KeyHealth(), NOW, []
    for _ in range(times):
        health = record_failure(health, ModelFailure(kind, ""), "m", now, rules or CooldownRules())
        out.append(measure_rest(health, "m", now))
        now = health.cooldown_until
    return out


@pytest.mark.parametrize("kind", ["auth", "rate_limit", "overloaded", "server", "timeout"])
def test_one_five_twenty_five_minutes_then_an_hour(kind: FailureKind) -> None:
    assert series(kind, 5) == [MINUTE, 5 * MINUTE, 25 * MINUTE, HOUR, HOUR]


def test_billing_rests_five_hours_and_doubles_to_a_day() -> None:
    assert series("billing", 5) == [5 * HOUR, 10 * HOUR, 20 * HOUR, 24 * HOUR, 24 * HOUR]
    assert series("billing", 3, CooldownRules(billing=HOUR, billing_most=3 * HOUR)) == [HOUR, 2 * HOUR, 3 * HOUR]


def test_a_refused_key_rests_as_the_config_says() -> None:
    auth = AuthSettings(refused_minutes=10.0, refused_most_minutes=15.0)
    assert series("auth", 3, make_cooldown_rules(auth, "x")) == [10 * MINUTE, 15 * MINUTE, 15 * MINUTE]
    assert series("auth", 2, make_cooldown_rules(AuthSettings(), "x")) == [MINUTE, 5 * MINUTE]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - set(RESTS)))
def test_what_is_not_the_provider_s_fault_never_makes_a_key_rest(kind: FailureKind) -> None:
    before = KeyHealth(last_used=3, error_count=2, failed_at=NOW)
    assert record_failure(before, ModelFailure(kind, "", 400, retry_after=99), "m", NOW) is before


def test_rate_limits_are_of_a_model_refused_keys_of_all() -> None:
    limited = record_failure(KeyHealth(), ModelFailure("rate_limit", ""), "m", NOW)
    assert measure_rest(limited, "m", NOW) and not measure_rest(limited, "other", NOW)
    both = record_failure(limited, ModelFailure("rate_limit", ""), "other", NOW + 1)
    assert measure_rest(both, "m", NOW + 1) and measure_rest(both, "other", NOW + 1)
    assert measure_rest(record_failure(KeyHealth(), ModelFailure("auth", ""), "m", NOW), "other", NOW)


def test_the_provider_s_wish_counts_if_it_is_longer() -> None:
    long = record_failure(KeyHealth(), ModelFailure("rate_limit", "", retry_after=3600), "m", NOW)
    assert measure_rest(long, "m", NOW) == HOUR
    assert (
        measure_rest(record_failure(KeyHealth(), ModelFailure("rate_limit", "", retry_after=1), "m", NOW), "m", NOW)
        == MINUTE
    )
    assert (
        measure_rest(record_failure(KeyHealth(), ModelFailure("rate_limit", "", retry_after=1e12), "m", NOW), "m", NOW)
        == 24 * HOUR
    )


def test_after_a_quiet_day_counting_begins_anew_and_success_forgets() -> None:
    twice = record_failure(
        record_failure(KeyHealth(mark="k"), ModelFailure("auth", ""), "m", NOW), ModelFailure("auth", ""), "m", NOW
    )
    assert twice.error_count == 2
    assert record_failure(twice, ModelFailure("auth", ""), "m", NOW + 24 * HOUR).error_count == 3
    assert record_failure(twice, ModelFailure("auth", ""), "m", twice.cooldown_until + 24 * HOUR).error_count == 1
    assert record_success(twice, NOW + 5) == KeyHealth(last_used=NOW + 5, mark="k")


def test_a_clock_that_was_set_back_does_not_lock_a_key_away() -> None:
    health = record_failure(KeyHealth(), ModelFailure("auth", ""), "m", NOW)
    assert measure_rest(health, "m", NOW - 30 * 24 * HOUR) == 0
    assert record_failure(health, ModelFailure("auth", ""), "m", NOW - 30 * 24 * HOUR).error_count == 1


def test_every_rest_has_a_word() -> None:
    assert set(WORDS) == set(RESTS)


@given(
    st.lists(
        st.tuples(st.sampled_from(KINDS), st.integers(0, 2 * 24 * HOUR), st.none() | st.floats(0, allow_nan=False)),
        max_size=30,
    )
)
def test_rests_are_bounded_whatever_happens(story: list[tuple[FailureKind, int, float | None]]) -> None:
    health, now = KeyHealth(), NOW
    for kind, pause, wish in story:
        now += pause
        health = record_failure(health, ModelFailure(kind, "", retry_after=wish), "m", now)
        assert 0 <= measure_rest(health, "m", now) <= LONGEST_REST and health.cooldown_until - now <= 24 * HOUR
