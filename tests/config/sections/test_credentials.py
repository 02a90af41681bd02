"""auth and budgets as settings."""

from __future__ import annotations

from typing import Any

from configs import read_settings
from palinurus.config.findings import ConfigFinding
from palinurus.config.sections.credentials import AuthSettings, BudgetLimitSettings, BudgetSettings
from palinurus.config.settings import Secret


def made(raw: dict[str, Any], environ: dict[str, str] | None = None) -> tuple[AuthSettings, list[ConfigFinding]]:
    settings, findings = read_settings({"auth": raw}, environ)
    return settings.auth, findings


def test_openclaw_s_section_is_taken_as_it_is() -> None:
    got, findings = made(
        {
            "profiles": {"anthropic:me": {"provider": "Anthropic", "mode": "oauth", "email": "me@example.org"}},
            "order": {"anthropic": ["anthropic:me", "anthropic:default"]},
            "cooldowns": {
                "billingBackoffHours": 2,
                "billingBackoffHoursByProvider": {"openai": 1},
                "billingMaxHours": 8,
                "failureWindowHours": 12,
                "overloadedProfileRotations": 1,
            },
        }
    )
    assert (
        not findings and got.profiles["anthropic:me"].provider == "anthropic" and not got.profiles["anthropic:me"].key
    )
    assert got.order == {"anthropic": ("anthropic:me", "anthropic:default")}
    assert (got.billing_hours, got.billing_by_provider, got.billing_most_hours, got.window_hours) == (
        2,
        {"openai": 1},
        8,
        12,
    )
    assert made({})[0] == AuthSettings()


def test_keys_written_out_or_by_reference_show_nowhere() -> None:
    profiles = {
        "a:1": {"provider": "a", "key": "sk-written"},
        "a:2": {"provider": "a", "key": {"source": "env", "id": "A_KEY"}},
        "a:3": {"provider": "a", "key": {"source": "env", "id": "MISSING"}},
    }
    got, findings = made({"profiles": profiles}, {"A_KEY": "sk-env"})
    assert [got.profiles[i].key for i in profiles] == [Secret("sk-written"), Secret("sk-env"), Secret()]
    assert "sk-" not in repr(got)
    assert [f.path for f in findings] == [("auth", "profiles", "a:3", "key")] and not findings[0].fatal


def test_what_cannot_be_meant_is_said() -> None:
    _, findings = made({"profiles": {"x": {"provider": " "}, "b:1": {"provider": "b"}}, "order": {"a": ["b:1"]}})
    assert [f.path for f in findings] == [("auth", "profiles", "x", "provider"), ("auth", "order", "a", 0)]
    assert not any(f.fatal for f in findings)


def spend(raw: dict[str, Any]) -> tuple[BudgetSettings, list[ConfigFinding]]:
    settings, findings = read_settings({"budgets": raw, "agents": {"list": [{"id": "main"}, {"id": "work"}]}})
    return settings.budgets, sorted(findings, key=lambda finding: finding.path[:2])


def test_budgets() -> None:
    got, findings = spend(
        {
            "day": {"softUsd": 5, "hardUsd": 10},
            "session": {"hardTokens": 1000},
            "agent": {"hardUsd": 0},
            "agents": {"work": {"softTokens": 1}},
        }
    )
    assert not findings
    assert got == BudgetSettings(
        BudgetLimitSettings(5, 10),
        BudgetLimitSettings(hard_tokens=1000),
        BudgetLimitSettings(hard_usd=0),
        {"work": BudgetLimitSettings(soft_tokens=1)},
    )
    assert spend({})[0] == BudgetSettings()


def test_a_warning_after_the_stop_and_an_agent_nobody_has() -> None:
    _, findings = spend({"day": {"softUsd": 5, "hardUsd": 1, "softTokens": 2, "hardTokens": 1}, "agents": {"wrok": {}}})
    assert [f.path for f in findings] == [
        ("budgets", "agents", "wrok"),
        ("budgets", "day", "softUsd"),
        ("budgets", "day", "softTokens"),
    ]
    assert findings[0].hint == "did you mean 'work'?"
