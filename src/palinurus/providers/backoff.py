"""After a failure: when the call is made again, and how long its key rests. One row per kind of failure. Pure.

Calls are made again only before anything was shown; kinds without a row are final, asking again would not help. Only
what is the provider's fault makes a key rest, not a request of ours that was wrong, an abort, or a network that is down
here. Rests are wall-clock milliseconds.
"""

from __future__ import annotations

import msgspec

from palinurus.core.types.model import FailureKind, ModelFailure

LONGEST_WAIT = 60.0  # a provider that asks for more gets no second call from here: another model may answer sooner


class RetryRow(msgspec.Struct, frozen=True):
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


MINUTE = 60_000
HOUR = 60 * MINUTE
LONGEST_REST = 7 * 24 * HOUR  # no rest is longer

STEPS: tuple[int, ...] = (MINUTE, 5 * MINUTE, 25 * MINUTE, HOUR)

# Failures that make a key rest; True: only for the model that was asked.
RESTS: dict[FailureKind, bool] = {
    "auth": False,
    "billing": False,
    "rate_limit": True,
    "overloaded": True,
    "server": True,
    "timeout": True,
}

WORDS: dict[str, str] = {
    "auth": "a refused key",
    "billing": "a billing failure",
    "rate_limit": "a rate limit",
    "overloaded": "an overloaded provider",
    "server": "a provider error",
    "timeout": "a time-out",
}


class CooldownRules(msgspec.Struct, frozen=True):
    """auth.cooldowns, in milliseconds."""

    billing: int = 5 * HOUR
    billing_most: int = 24 * HOUR
    window: int = 24 * HOUR  # failures older than this are forgotten
    refused: int = 0  # a key that is not taken rests so long at first; 0: as after any other failure
    refused_most: int = HOUR


DEFAULT_RULES = CooldownRules()


class KeyHealth(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What is remembered of one key."""

    last_used: int = 0
    failed_at: int = 0
    error_count: int = 0
    cooldown_until: int = 0
    cooldown_model: str = ""  # "": for every model
    reason: str = ""
    mark: str = ""  # which key this is about: another one under the same name starts afresh


def record_failure(
    health: KeyHealth, failure: ModelFailure, model: str, now: int, rules: CooldownRules = DEFAULT_RULES
) -> KeyHealth:
    """The health after a failure; unchanged for one that is not the provider's."""
    scoped = RESTS.get(failure.kind)
    if scoped is None:
        return health
    # Counted from the end of the rest: one as long as the window must not wipe out its own count.
    recent = health.failed_at <= now < max(health.failed_at, health.cooldown_until) + rules.window
    count = health.error_count + 1 if recent else 1
    until = now + max(choose_rest(failure.kind, count, rules), int(min(failure.retry_after or 0.0, 86_400.0) * 1000))
    same = not recent or health.cooldown_until <= now or health.cooldown_model == model
    return msgspec.structs.replace(
        health,
        failed_at=now,
        error_count=count,
        cooldown_until=until,
        cooldown_model=model if scoped and same else "",
        reason=failure.kind,
    )


def choose_rest(kind: FailureKind, count: int, rules: CooldownRules = DEFAULT_RULES) -> int:
    """How long the `count`-th failure of a key makes it rest (from 1)."""
    if kind == "billing":
        return min(rules.billing << min(count - 1, 16), rules.billing_most)
    if kind == "auth" and rules.refused:
        return min(rules.refused << min(count - 1, 16), max(rules.refused_most, rules.refused))
    return STEPS[min(count, len(STEPS)) - 1]


def record_success(health: KeyHealth, now: int) -> KeyHealth:
    """The health after a call that went well."""
    return KeyHealth(last_used=now, mark=health.mark)


def measure_rest(health: KeyHealth, model: str, now: int) -> int:
    """Milliseconds this key still rests for this model; 0: it may be used.

    An end further away than any rest can be means that the clock was set back: it does not count.
    """
    left = health.cooldown_until - now
    if left <= 0 or left > LONGEST_REST or (health.cooldown_model and health.cooldown_model != model):
        return 0
    return left
