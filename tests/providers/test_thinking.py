"""Levels by name, as a tool plugin asks for them."""

from __future__ import annotations

import pytest

from palinurus.config.sections.models import ModelSettings, ProviderSettings
from palinurus.core.types.model import ModelFailure, ModelSpec
from palinurus.providers.catalog import Catalog
from palinurus.providers.thinking import normalize_thinking_level, resolve_thinking_policy
from providers.kit import agent, settings


@pytest.mark.seed(140)
def test_by_provider_and_model() -> None:
    row = resolve_thinking_policy("anthropic", "claude-opus-4-8")
    assert row.thinkingOptions[-1] == "max" and row.thinkingDefault == "off"
    assert resolve_thinking_policy("ZAI", "glm-5").thinkingLevels[-1] == {"id": "low", "label": "on"}
    assert resolve_thinking_policy("openai", "gpt-4.1").thinkingOptions == ("off",)
    assert resolve_thinking_policy("nobody", "x").thinkingOptions == ("off", "minimal", "low", "medium", "high")


@pytest.mark.seed(140)
def test_words() -> None:
    assert normalize_thinking_level("Extra High") == "xhigh"
    assert normalize_thinking_level("bogus") is None and normalize_thinking_level(7) is None


@pytest.mark.seed(141)
def test_a_catalog_makes_opt_ins_count() -> None:
    efforts = {"supportedReasoningEfforts": ["low", "high", "xhigh"]}
    lab = ProviderSettings("lab", base_url="http://x", models=(ModelSettings("m", reasoning=True, compat=efforts),))
    catalog = Catalog(settings(lab), {})

    def find(text: str) -> ModelSpec | ModelFailure:
        return catalog.find(text, agent())

    assert "xhigh" not in resolve_thinking_policy("lab", "m").thinkingOptions
    assert "xhigh" in resolve_thinking_policy("lab", "m", find).thinkingOptions
    assert resolve_thinking_policy("lab", "other", find).thinkingOptions  # one the catalog does not know
