"""auth: several keys per provider, their order, and how long a key rests. Names are OpenClaw's, but for `key`."""

from __future__ import annotations

from typing import Literal

from palinurus.config.schema.words import Amount, ConfigSection, SecretText, Size

# budgets: what may be spent. Ours; OpenClaw has no such section.


class BudgetLimitSection(ConfigSection, frozen=True):
    """At `soft…` the person is told once; at `hard…` no model is asked any more."""

    soft_usd: Amount | None = None
    hard_usd: Amount | None = None
    soft_tokens: Size | None = None
    hard_tokens: Size | None = None


class BudgetsSection(ConfigSection, frozen=True):
    day: BudgetLimitSection | None = None  # everything, per calendar day
    session: BudgetLimitSection | None = None  # one conversation, with its sub-agents, until it is reset
    agent: BudgetLimitSection | None = None  # each agent, per calendar day
    agents: dict[str, BudgetLimitSection] | None = None  # the same for one agent, instead


class AuthProfileSection(ConfigSection, frozen=True):
    """auth.profiles.<id>; the secret stands in `key`, or in auth-profiles.json under the same id."""

    provider: str
    mode: Literal["api_key", "oauth", "token", "aws-sdk"] | None = None
    email: str | None = None
    display_name: str | None = None
    key: SecretText | None = None


class CooldownsSection(ConfigSection, frozen=True):
    billing_backoff_hours: Amount | None = None
    billing_backoff_hours_by_provider: dict[str, Amount] | None = None
    billing_max_hours: Amount | None = None
    auth_permanent_backoff_minutes: Amount | None = None
    auth_permanent_max_minutes: Amount | None = None
    failure_window_hours: Amount | None = None
    overloaded_profile_rotations: Size | None = None
    overloaded_backoff_ms: Size | None = None
    rate_limited_profile_rotations: Size | None = None


class AuthSection(ConfigSection, frozen=True):
    profiles: dict[str, AuthProfileSection] | None = None
    order: dict[str, list[str]] | None = None
    cooldowns: CooldownsSection | None = None
