"""Vercel AI Gateway: many vendors' models behind an Anthropic-compatible address."""

from __future__ import annotations

import re
from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel
from palinurus.providers.vendors import claude, custom

_XHIGH = re.compile(r"openai/gpt-(5\.[45].*|5\.3-codex|5\.2(-codex)?|5\.1-codex)")
_XHIGH_BUDGET = 32_768


def resolve_vercel_profile(model: ModelSpec) -> ThinkingProfile:
    """Claude's levels for Claude, xhigh where the GPT models have it."""
    name = model.ref.model.lower()
    if claude.is_claude(name):
        return claude.resolve_claude_profile(name)
    extra = ("xhigh",) if _XHIGH.fullmatch(name) else ()
    return thinking.make_profile((*thinking.make_base_profile(model).levels, *extra))


def shape_vercel_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """Claude's own fields for Claude; a thinking budget, which the gateway translates, for the rest."""
    model = request.model
    if model.api != "anthropic-messages" or claude.is_claude(model.ref.model):
        return custom.shape_custom_body(body, request)
    shaped = claude.shape_claude_body(body, request)
    if request.level in ("xhigh", "max") and shaped.get("thinking", {}).get("type") == "enabled":
        most = min(shaped["max_tokens"] - claude.BUDGETS["high"] + _XHIGH_BUDGET, model.max_tokens)
        if most > _XHIGH_BUDGET:
            shaped = {**shaped, "thinking": {"type": "enabled", "budget_tokens": _XHIGH_BUDGET}, "max_tokens": most}
    return shaped


def _known(id: str, name: str, window: int = 200_000, most: int = 64_000) -> VendorModel:
    return VendorModel(id, name, reasoning=True, vision=True, context_window=window, max_tokens=most)


VERCEL_AI_GATEWAY = Vendor(
    id="vercel-ai-gateway",
    name="Vercel AI Gateway",
    api="anthropic-messages",
    base_url="https://ai-gateway.vercel.sh",
    keys=("AI_GATEWAY_API_KEY",),
    models=(
        _known("anthropic/claude-sonnet-4.6", "Claude Sonnet 4.6", 1_000_000),
        _known("anthropic/claude-opus-4.8", "Claude Opus 4.8", 1_000_000, 128_000),
        _known("openai/gpt-5.5", "GPT-5.5", 1_000_000, 128_000),
        _known("openai/gpt-5.4", "GPT-5.4", 1_050_000, 128_000),
    ),
    profile=resolve_vercel_profile,
    shape=shape_vercel_body,
    headers=custom.build_custom_headers,
    aliases=("ai-gateway", "vercel"),
    reasons=lambda model_id: claude.can_claude_reason(model_id) or model_id.startswith("openai/gpt-5"),
)
