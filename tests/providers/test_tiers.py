"""Fast mode and service tiers at every vendor that has them."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.core.levels import resolve
from palinurus.core.levels.resolve import LevelRequest
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import ModelRequest, ModelSpec, Prompt
from palinurus.providers import VENDORS, load_row, tiers
from palinurus.providers.vendors import custom


def sent(ref: str, fast: bool | None, body: dict[str, Any] | None = None, **facts: Any) -> dict[str, Any]:
    provider, _, name = ref.partition("/")
    vendor = load_row(VENDORS, provider)
    facts = {"api": vendor.api, "base_url": vendor.base_url, **facts}
    request = ModelRequest(ModelSpec(ModelRef(provider, name), **facts), Prompt("p"), (UserMessage("hi"),), fast=fast)
    rules = vendor if vendor.shapes(request.model.api) else custom.VENDOR
    return rules.shape({"model": name, **(body or {})}, request)


OPENAI_ROWS = [
    ({}, True, "priority"),
    ({}, False, None),
    ({}, None, None),
    ({"base_url": "https://me.openai.azure.com/openai"}, True, "priority"),
    ({"base_url": "https://proxy.example/v1"}, True, None),
    ({"base_url": "https://api.openai.com.evil.example/v1"}, True, None),
    ({"base_url": "http://["}, True, None),
    ({"params": {"serviceTier": "flex"}}, True, "flex"),
    ({"params": {"serviceTier": "bogus"}}, True, "priority"),
    ({"params": {"service_tier": "default"}}, None, "default"),
    ({"api": "openai-completions"}, True, None),
]


@pytest.mark.seed(79)
@pytest.mark.parametrize(("facts", "fast", "tier"), OPENAI_ROWS)
def test_openai(facts: dict[str, Any], fast: bool | None, tier: str | None) -> None:
    assert sent("openai/gpt-5.5", fast, **facts).get("service_tier") == tier


@pytest.mark.seed(80)
def test_codex() -> None:
    assert sent("openai-codex/gpt-5.4", True)["service_tier"] == "priority"
    assert "service_tier" not in sent("openai-codex/gpt-5.4", False)
    official = {"api": "openai-codex-responses", "base_url": "https://chatgpt.com/backend-api"}
    assert sent("openai/gpt-5.4", True, **official)["service_tier"] == "priority"


def test_a_tier_in_the_body_stays() -> None:
    assert sent("openai/gpt-5.5", True, {"service_tier": "flex"})["service_tier"] == "flex"


def test_fast_mode_changes_no_reasoning() -> None:
    slow, fast = (sent("openai/gpt-5.5", f, reasoning=True) for f in (False, True))
    assert {**slow, "service_tier": "priority"} == fast


@pytest.mark.parametrize(
    ("facts", "fast", "tier"),
    [
        pytest.param({}, True, "auto", marks=pytest.mark.seed(82)),
        pytest.param({}, False, "standard_only", marks=pytest.mark.seed(83)),
        ({}, None, None),
        pytest.param({"params": {"serviceTier": "standard_only"}}, True, "standard_only", marks=pytest.mark.seed(86)),
        pytest.param({"params": {"service_tier": "auto"}}, False, "auto", marks=pytest.mark.seed(86)),
        ({"params": {"serviceTier": "priority"}}, True, "auto"),
        pytest.param({"base_url": "https://proxy.example"}, True, None, marks=pytest.mark.seed(87)),
        pytest.param({"base_url": "https://proxy.example"}, False, None, marks=pytest.mark.seed(87)),
        pytest.param(
            {"base_url": "https://proxy.example", "params": {"serviceTier": "auto"}},
            True,
            None,
            marks=pytest.mark.seed(87),
        ),
    ],
)
def test_anthropic(facts: dict[str, Any], fast: bool | None, tier: str | None) -> None:
    assert sent("anthropic/claude-opus-4-8", fast, **facts).get("service_tier") == tier


@pytest.mark.parametrize(
    ("name", "fast", "model"),
    [
        pytest.param("MiniMax-M2.7", True, "MiniMax-M2.7-highspeed", marks=pytest.mark.seed(84)),
        pytest.param("MiniMax-M2.7", False, "MiniMax-M2.7", marks=pytest.mark.seed(84)),
        ("MiniMax-M2.7", None, "MiniMax-M2.7"),
        ("MiniMax-M3", True, "MiniMax-M3"),
    ],
)
def test_minimax(name: str, fast: bool | None, model: str) -> None:
    out = sent(f"minimax/{name}", fast)
    assert out["model"] == model
    assert "service_tier" not in out


@pytest.mark.seed(85)
def test_minimax_params_do_the_same() -> None:
    params = {"fastMode": True}
    model = ModelSpec(ModelRef("minimax", "MiniMax-M2.7"), "anthropic-messages", params=params)
    asked = resolve.resolve_fast_mode(model, LevelRequest()).at(0)
    assert sent("minimax/MiniMax-M2.7", asked, params=params)["model"] == "MiniMax-M2.7-highspeed"
    assert sent("minimax/MiniMax-M2.7", None, params=params)["model"] == "MiniMax-M2.7-highspeed"
    assert sent("minimax/MiniMax-M2.7", False, params=params)["model"] == "MiniMax-M2.7"


@pytest.mark.parametrize(("name", "fast"), [("grok-3", "grok-3-fast"), ("grok-4", "grok-4-fast")])
def test_xai_switches_the_model(name: str, fast: str) -> None:
    assert sent(f"xai/{name}", True)["model"] == fast
    assert sent(f"xai/{name}", False)["model"] == name


@pytest.mark.parametrize("provider", [p for p in VENDORS if p not in ("openai", "openai-codex", "anthropic")])
def test_nobody_else_is_sent_a_tier(provider: str) -> None:
    assert "service_tier" not in sent(f"{provider}/m", True, params={"serviceTier": "auto"})


@pytest.mark.parametrize(("url", "name"), [("https://A.example:8/x", "a.example"), ("", ""), ("http://[", "")])
def test_host(url: str, name: str) -> None:
    assert tiers.parse_host(url) == name


@pytest.mark.seed(80, 82, 83)
@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("anthropic/claude-opus-4-8", ["auto", "standard_only", None]),
        ("openai-codex/gpt-5.4", ["priority", None, None]),
    ],
)
def test_who_is_signed_in_has_the_tiers_too(ref: str, words: list[str | None]) -> None:
    provider, _, name = ref.partition("/")
    vendor = load_row(VENDORS, provider)
    spec = ModelSpec(ModelRef(provider, name), vendor.api, vendor.base_url)
    asked = (
        ModelRequest(spec, Prompt("p"), (UserMessage("hi"),), fast=fast, profile=f"{provider}:me@x.example")
        for fast in (True, False, None)
    )
    assert [vendor.shape({"model": name}, one).get("service_tier") for one in asked] == words
