"""Vercel AI Gateway. An Anthropic-compatible address."""

from __future__ import annotations

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, make_thinking_model
from palinurus.patterns import compile_late
from palinurus.providers.vendors import claude
from palinurus.providers.vendors.custom import Body

_XHIGH = compile_late(r"openai/gpt-(5\.[45].*|5\.3-codex|5\.2(-codex)?|5\.1-codex)")
_BUDGETS = {**claude.BUDGETS, "xhigh": 32_768, "max": 32_768}


def resolve_vercel_profile(model: ModelSpec) -> ThinkingProfile:
    """Claude's levels for Claude, xhigh where the GPT models have it."""
    name = model.ref.model.lower()
    if claude.is_claude(name):
        return claude.resolve_claude_profile(name)
    extra = ("xhigh",) if _XHIGH.fullmatch(name) else ()
    return thinking.make_profile((*thinking.make_base_profile(model).levels, *extra))


def shape_vercel_body(body: Body, request: ModelRequest) -> Body:
    """Claude's own fields for Claude; a thinking budget, which the gateway translates, for the rest."""
    budgets = claude.BUDGETS if claude.is_claude(request.model.ref.model) else _BUDGETS
    return claude.shape_claude_body(body, request, budgets)


VENDOR = Vendor(
    id="vercel-ai-gateway",
    name="Vercel AI Gateway",
    api="anthropic-messages",
    base_url="https://ai-gateway.vercel.sh",
    keys=("AI_GATEWAY_API_KEY",),
    models=(
        make_thinking_model("anthropic/claude-sonnet-4.6", "Claude Sonnet 4.6", 1_000_000),
        make_thinking_model("anthropic/claude-opus-4.8", "Claude Opus 4.8", 1_000_000, 128_000),
        make_thinking_model("openai/gpt-5.5", "GPT-5.5", 1_000_000, 128_000),
        make_thinking_model("openai/gpt-5.4", "GPT-5.4", 1_050_000, 128_000),
    ),
    profile=resolve_vercel_profile,
    shape=shape_vercel_body,
    aliases=("ai-gateway", "vercel"),
    reasons=lambda model_id: claude.can_claude_reason(model_id) or model_id.startswith("openai/gpt-5"),
)
