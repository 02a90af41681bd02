"""OpenRouter: many vendors' models behind one Chat Completions address, with a nested `reasoning` field."""

from __future__ import annotations

import re
from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel
from palinurus.providers.vendors import claude, custom

_DEEPSEEK_V4 = re.compile(r"deepseek/deepseek-v4-.*")
# These refuse the field or think by themselves: nothing is added to their requests.
_BARE = re.compile(r"x-ai/.*|(openrouter/)?hunter-alpha.*")
_WORDS: dict[str, str] = {"adaptive": "medium", "max": "xhigh"}


def resolve_openrouter_profile(model: ModelSpec) -> ThinkingProfile:
    """DeepSeek V4 has xhigh; the others the base levels and what the catalog entry adds."""
    if _DEEPSEEK_V4.fullmatch(model.ref.model.lower()):
        return thinking.make_profile((*thinking.BASE_LEVELS, "xhigh"), "high")
    return thinking.make_base_profile(model)


def shape_openrouter_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """`reasoning.effort`, never a top-level `reasoning_effort`; off adds nothing."""
    if request.model.api != "openai-completions":
        return custom.shape_custom_body(body, request)
    name = request.model.ref.model.lower()
    shaped = {key: value for key, value in body.items() if key != "reasoning_effort"}
    if request.model.reasoning is False or not custom.is_thinking(request) or _BARE.fullmatch(name):
        return shaped
    effort = _WORDS.get(request.level, request.level)
    if _DEEPSEEK_V4.fullmatch(name):
        effort = "xhigh" if effort == "xhigh" else "high"
    given = shaped.get("reasoning")
    given = given if isinstance(given, dict) else {}
    if not ("effort" in given or "max_tokens" in given):
        shaped["reasoning"] = {**given, "effort": effort}
    return claude.drop_prefill(shaped) if claude.is_claude(name) else shaped


def build_openrouter_headers(request: ModelRequest) -> dict[str, str]:
    """How the address attributes traffic to an application."""
    return {"X-Title": "Palinurus"}


OPENROUTER = Vendor(
    id="openrouter",
    name="OpenRouter",
    api="openai-completions",
    base_url="https://openrouter.ai/api/v1",
    keys=("OPENROUTER_API_KEY",),
    models=(
        VendorModel("auto", "OpenRouter Auto", reasoning=False, vision=True, context_window=200_000, max_tokens=8192),
        VendorModel(
            "anthropic/claude-sonnet-4.6", "Claude Sonnet 4.6", True, True, context_window=1_000_000, max_tokens=64_000
        ),
        VendorModel("deepseek/deepseek-v4-pro", "DeepSeek V4 Pro", True, context_window=1_000_000, max_tokens=64_000),
        VendorModel(
            "deepseek/deepseek-v4-flash", "DeepSeek V4 Flash", True, context_window=1_000_000, max_tokens=64_000
        ),
        VendorModel("moonshotai/kimi-k2.6", "Kimi K2.6", True, True, context_window=262_144, max_tokens=32_768),
    ),
    profile=resolve_openrouter_profile,
    shape=shape_openrouter_body,
    headers=build_openrouter_headers,
)
