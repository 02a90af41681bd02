"""auth: several keys per provider, their order, and how long a key rests. Names are OpenClaw's, but for `key`."""

from typing import Literal

from palinurus.config.schema.words import Amount, ConfigSection, SecretText, Size


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
