"""The `auth` and `budgets` sections as settings. Findings go into the list handed in."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from palinurus.config.expand import resolve_secret
from palinurus.config.findings import ConfigFinding, suggest_nearest
from palinurus.config.keypath import Path
from palinurus.config.schema import Config
from palinurus.config.schema.credentials import AuthSection, BudgetLimitSection, BudgetsSection, CooldownsSection
from palinurus.config.settings import AuthProfileSettings, AuthSettings, BudgetLimitSettings, BudgetSettings


def resolve_auth(config: Config, environ: Mapping[str, str], findings: list[ConfigFinding]) -> AuthSettings:
    """Profiles, their order and the cool-downs."""
    section = config.auth or AuthSection()
    profiles: dict[str, AuthProfileSettings] = {}
    for ident, body in (section.profiles or {}).items():
        path: Path = ("auth", "profiles", ident)
        provider = body.provider.strip().lower()
        if not provider:
            findings.append(ConfigFinding((*path, "provider"), "names no provider", "such as anthropic", False))
            continue
        key = resolve_secret(body.key, (*path, "key"), environ, findings, fatal=False)
        profiles[ident] = AuthProfileSettings(ident, provider, body.mode or "api_key", key)
    for provider, idents in (section.order or {}).items():
        for at, ident in enumerate(idents):
            found = profiles.get(ident)
            if found is not None and found.provider != provider.strip().lower():
                where: Path = ("auth", "order", provider, at)
                findings.append(ConfigFinding(where, f"this profile belongs to {found.provider!r}", "", False))
    rules = section.cooldowns or CooldownsSection()
    base = AuthSettings()
    return AuthSettings(
        profiles=profiles,
        order={provider.strip().lower(): tuple(idents) for provider, idents in (section.order or {}).items()},
        billing_hours=rules.billing_backoff_hours or base.billing_hours,
        billing_by_provider={k.lower(): v for k, v in (rules.billing_backoff_hours_by_provider or {}).items() if v},
        billing_most_hours=rules.billing_max_hours or base.billing_most_hours,
        window_hours=rules.failure_window_hours or base.window_hours,
    )


def resolve_budgets(config: Config, agents: Collection[str], findings: list[ConfigFinding]) -> BudgetSettings:
    """The limits; an agent that does not exist is a finding."""
    section = config.budgets or BudgetsSection()
    for name in section.agents or {}:
        if name not in agents:
            findings.append(
                ConfigFinding(
                    ("budgets", "agents", name), "there is no such agent", suggest_nearest(name, agents), False
                )
            )
    return BudgetSettings(
        day=_limit(section.day, ("budgets", "day"), findings),
        session=_limit(section.session, ("budgets", "session"), findings),
        agent=_limit(section.agent, ("budgets", "agent"), findings),
        agents={k: _limit(v, ("budgets", "agents", k), findings) for k, v in (section.agents or {}).items()},
    )


def _limit(section: BudgetLimitSection | None, path: Path, findings: list[ConfigFinding]) -> BudgetLimitSettings:
    if section is None:
        return BudgetLimitSettings()
    for soft, hard, name in (
        (section.soft_usd, section.hard_usd, "softUsd"),
        (section.soft_tokens, section.hard_tokens, "softTokens"),
    ):
        if soft is not None and hard is not None and soft > hard:
            findings.append(
                ConfigFinding((*path, name), "the warning would come after the stop", "make it smaller", False)
            )
    return BudgetLimitSettings(section.soft_usd, section.hard_usd, section.soft_tokens, section.hard_tokens)
