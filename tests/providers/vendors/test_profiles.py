"""The thinking profile of every vendor and family: levels, labels, default. One row each."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from palinurus.core.levels import resolve, thinking
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.model import ModelSpec
from palinurus.core.types.vendor import Vendor
from palinurus.providers import VENDORS, load_row
from palinurus.providers.vendors import custom

BASE = "off minimal low medium high"
FULL = "off minimal low medium adaptive high xhigh max"


def vendor_of(provider: str) -> Vendor:
    return load_row(VENDORS, provider) or custom.VENDOR


def model_of(ref: str, *, reasoning: bool = True, api: str = "", **compat: Any) -> ModelSpec:
    provider, _, name = ref.partition("/")
    vendor = vendor_of(provider)
    return ModelSpec(
        ModelRef(provider, name), api or vendor.api, vendor.base_url, reasoning=reasoning, compat=dict(compat)
    )


def seed(*numbers: int) -> Any:
    return pytest.mark.seed(*numbers)


# ref, levels, default (as declared by the vendor)
ROWS = [
    ("acme/some-model", BASE, None),
    pytest.param("anthropic/claude-fable-5", FULL, "high", id="fable"),
    pytest.param("anthropic/claude-opus-4-8", FULL, "off", marks=seed(11, 12, 13, 23)),
    pytest.param("anthropic/claude-opus-4-7", FULL, "off", marks=seed(11, 12, 13, 23)),
    pytest.param("anthropic/claude-opus-4-7-20260401", FULL, "off", marks=seed(23)),
    pytest.param("anthropic/claude-opus-4.8", FULL, "off", marks=seed(23)),
    pytest.param("anthropic/claude-opus-4-6", f"{BASE} adaptive max", "adaptive", marks=seed(12, 22)),
    pytest.param("anthropic/claude-sonnet-4-6", f"{BASE} adaptive max", "adaptive", marks=seed(12, 22)),
    ("anthropic/claude-mythos-preview", f"{BASE} adaptive max", "adaptive"),
    ("anthropic/claude-opus-4-5", BASE, None),
    ("anthropic/claude-opus-4-20250514", BASE, None),
    ("anthropic/claude-3-7-sonnet-latest", BASE, None),
    ("amazon-bedrock/us.anthropic.claude-opus-4-8", FULL, "off"),
    ("amazon-bedrock/us.anthropic.claude-opus-4-7-v1:0", FULL, "off"),
    pytest.param("amazon-bedrock/eu.anthropic.claude-opus-4-6-v1", f"{BASE} adaptive max", "adaptive", marks=seed(12)),
    pytest.param("amazon-bedrock/us.anthropic.claude-sonnet-4-6", f"{BASE} adaptive", "adaptive", marks=seed(12, 22)),
    ("amazon-bedrock/anthropic.claude-mythos-preview", f"{BASE} adaptive", "adaptive"),
    ("amazon-bedrock/amazon.nova-pro-v1:0", BASE, None),
    *[
        pytest.param(f"{provider}/{name}", f"{BASE} xhigh", None, marks=seed(11))
        for provider, names in {
            "openai": "gpt-5.2 gpt-5.2-2025-12-11 gpt-5.3 gpt-5.4 gpt-5.4-mini gpt-5.5 gpt-5.5-pro gpt-5.3-codex-spark "
            "gpt-5.2-codex gpt-5.1-codex gpt-5-codex gpt-5.1-codex-max gpt-6",
            "openai-codex": "gpt-5.4 gpt-5.3-codex gpt-5.2-codex",
        }.items()
        for name in names.split()
    ],
    ("openai/gpt-5.1", BASE, None),
    ("openai/gpt-5", BASE, None),
    ("openai/o3", BASE, None),
    ("openai-codex/gpt-5.1-codex-mini", BASE, None),
    *[
        (f"vercel-ai-gateway/openai/{name}", f"{BASE} xhigh", None)
        for name in ("gpt-5.5", "gpt-5.4-mini", "gpt-5.3-codex", "gpt-5.2", "gpt-5.2-codex", "gpt-5.1-codex")
    ],
    ("vercel-ai-gateway/openai/gpt-5.1", BASE, None),
    pytest.param("vercel-ai-gateway/anthropic/claude-opus-4.8", FULL, "off", marks=seed(137)),
    pytest.param("google/gemini-3-pro-preview", "off low adaptive high", None, marks=seed(12)),
    pytest.param("google/gemini-3.1-pro-preview", "off low adaptive high", None, marks=seed(12)),
    ("google/gemini-pro-latest", "off low adaptive high", None),
    ("google/gemini-3-flash-preview", "off minimal low medium adaptive high", None),
    ("google/gemini-3.1-flash-lite", "off minimal low medium adaptive high", None),
    ("google/gemini-flash-latest", "off minimal low medium adaptive high", None),
    pytest.param("google/gemini-2.5-pro", "off minimal low medium adaptive high", None, marks=seed(12)),
    ("google/gemini-2.5-flash", "off minimal low medium adaptive high", None),
    pytest.param("deepseek/deepseek-v4-flash", f"{BASE} xhigh max", "high", marks=seed(27)),
    pytest.param("deepseek/deepseek-v4-pro", f"{BASE} xhigh max", "high", marks=seed(27)),
    ("deepseek/deepseek-reasoner", BASE, None),
    pytest.param("openrouter/deepseek/deepseek-v4-pro", f"{BASE} xhigh", "high", marks=seed(29)),
    ("openrouter/moonshotai/kimi-k2.6", BASE, None),
    pytest.param("ollama/gpt-oss:20b", "off low medium high max", "off", marks=seed(13, 32)),
    ("minimax/MiniMax-M3", "off adaptive", "adaptive"),
    ("minimax/MiniMax-M3.1", "off adaptive", "adaptive"),
    ("minimax/MiniMax-M2.7", BASE, "off"),
    pytest.param("zai/glm-5.1", "off low", "off", marks=seed(44)),
    pytest.param("zai/glm-4.7", "off low", "off", marks=seed(44)),
    pytest.param("zai/glm-5.2", "off low high max", "off", marks=seed(45)),
    pytest.param("zai/glm-5.2-air", "off low high max", "off", marks=seed(45)),
    ("moonshot/kimi-k2.6", "off low", "off"),
    pytest.param("moonshot/kimi-k2.7-code", "low", "low", marks=seed(46)),
    ("mistral/mistral-small-latest", "off high", "off"),
    ("mistral/mistral-medium-3-5", "off high", "off"),
    ("xai/grok-4", BASE, "low"),
    ("xiaomi/mimo-v2-pro", f"{BASE} xhigh max", "high"),
    ("github-copilot/claude-opus-4.8", BASE, None),
    ("vllm/nvidia/nemotron-3-nano", "off low", "off"),
    ("groq/openai/gpt-oss-120b", BASE, None),
    ("groq/qwen/qwen3-32b", "off low", "off"),
    ("together/openai/gpt-oss-120b", BASE, None),
    ("together/zai-org/GLM-5", "off low", "off"),
    ("together/MiniMaxAI/MiniMax-M2.7", "low", "low"),
    ("fireworks/accounts/fireworks/models/glm-5", f"{BASE} max", None),
    ("fireworks/accounts/fireworks/models/deepseek-v4-pro", f"{BASE} xhigh", None),
    ("cerebras/zai-glm-4.7", "off low", "off"),
    ("cerebras/gpt-oss-120b", BASE, None),
    *[(f"{p}/some-model", BASE, None) for p in ("fireworks", "cerebras", "litellm", "lmstudio", "sglang", "vllm")],
]


@pytest.mark.seed(17, 136)
@pytest.mark.parametrize(("ref", "levels", "default"), ROWS)
def test_profile(ref: str, levels: str, default: str | None) -> None:
    model = model_of(ref)
    profile = thinking.find_thinking_profile(model, vendor_of(model.ref.provider))
    assert set(thinking.list_level_ids(profile)) == set(levels.split())
    assert thinking.list_level_ids(profile) == thinking.list_level_ids(thinking.make_profile(levels.split()))
    assert profile.default == default


@pytest.mark.seed(16, 138)
@pytest.mark.parametrize(
    "ref", ["zai/glm-5", "moonshot/kimi-k2.5", "moonshot/kimi-k2.7-code", "vllm/nemotron-3-super", "together/x/y"]
)
def test_binary_vendors_show_on(ref: str) -> None:
    model = model_of(ref)
    labels = thinking.make_thinking_row(model, vendor_of(model.ref.provider)).thinkingOptions
    assert labels[-1] == "on"
    assert "low" not in labels


KEEPERS = {"google/gemini-3-pro-preview", "anthropic/claude-fable-5"}


@pytest.mark.parametrize(
    "ref",
    [
        "acme/x",
        "anthropic/claude-opus-4-8",
        "openai/gpt-5.5",
        "ollama/llama3.2",
        "xai/grok-3",
        "zai/glm-5",
        "google/gemini-2.5-pro",
        *sorted(KEEPERS),
    ],
)
def test_a_model_the_catalog_says_does_not_reason(ref: str) -> None:
    model = model_of(ref, reasoning=False)
    profile = thinking.find_thinking_profile(model, vendor_of(model.ref.provider))
    assert (thinking.list_level_ids(profile) == ("off",)) is (ref not in KEEPERS)


@pytest.mark.parametrize("ref", ["acme/x", "litellm/x", "openrouter/acme/x", "lmstudio/x"])
def test_a_model_nobody_has_said_anything_about_offers_the_base_levels_and_starts_off(ref: str) -> None:
    model = msgspec.structs.replace(model_of(ref), reasoning=None)
    row = thinking.make_thinking_row(model, vendor_of(model.ref.provider))
    assert row.thinkingOptions == tuple(BASE.split()) and row.thinkingDefault == "off"
    decision = resolve.resolve_thinking(model, resolve.LevelRequest(), vendor_of(model.ref.provider))
    assert decision.reason == "nothing says whether the model reasons"


@pytest.mark.seed(36, 37, 139)
@pytest.mark.parametrize("provider", ["acme", "github-copilot", "openrouter", "litellm", "lmstudio"])
def test_compat_efforts_add_levels_at_vendors_without_an_opinion(provider: str) -> None:
    model = model_of(f"{provider}/some/model", supportedReasoningEfforts=["low", "medium", "high", "xhigh", "max"])
    assert thinking.list_level_ids(thinking.find_thinking_profile(model, vendor_of(provider)))[-2:] == ("xhigh", "max")


@pytest.mark.seed(139)
@pytest.mark.parametrize("form", ["qwen", "qwen-chat-template"])
@pytest.mark.parametrize("provider", ["acme", "vllm", "sglang"])
def test_a_format_that_only_knows_on_and_off_offers_no_more(provider: str, form: str) -> None:
    model = model_of(f"{provider}/qwen3", thinkingFormat=form)
    assert thinking.list_level_labels(thinking.find_thinking_profile(model, vendor_of(provider))) == ("off", "on")


@pytest.mark.seed(137)
def test_a_custom_provider_behind_the_messages_api_gets_claudes_levels() -> None:
    model = model_of("acme/claude-opus-4-8", api="anthropic-messages")
    assert thinking.list_level_ids(thinking.find_thinking_profile(model, custom.VENDOR)) == tuple(FULL.split())


@pytest.mark.parametrize("provider", VENDORS)
def test_every_vendor_is_complete_and_sound(provider: str) -> None:
    vendor = load_row(VENDORS, provider)
    assert vendor.id == provider
    assert len({m.id for m in vendor.models}) == len(vendor.models)
    for known in vendor.models:
        model = ModelSpec(ModelRef(provider, known.id), vendor.api, vendor.base_url, reasoning=known.reasoning)
        profile = thinking.find_thinking_profile(model, vendor)
        assert profile.levels
        assert thinking.choose_default_level(model, profile) in thinking.list_level_ids(profile)
        if vendor.reasons is not None:
            assert vendor.reasons(known.id) is known.reasoning, known.id
