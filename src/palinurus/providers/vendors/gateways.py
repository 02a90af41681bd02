"""GitHub Copilot: GPT, Claude and Gemini models of a Copilot subscription, behind three APIs.

The key is a short-lived Copilot token that the sign-in exchanges for the GitHub token.
"""

from __future__ import annotations

import re
from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.messages import ImageBlock, ToolResult, UserMessage
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel
from palinurus.providers.vendors import claude, custom, efforts

# Vercel AI Gateway: many vendors' models behind an Anthropic-compatible address.

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


# OpenRouter: many vendors' models behind one Chat Completions address, with a nested `reasoning` field.

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


def resolve_copilot_profile(model: ModelSpec) -> ThinkingProfile:
    """The base levels; xhigh and max only as the catalog entry lists them."""
    return thinking.make_base_profile(model)


def shape_copilot_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """The common rules; the Responses endpoint refuses effort none."""
    if request.model.api in ("openai-responses", "openai-codex-responses"):
        return efforts.add_responses_effort(body, request, none=False)
    return custom.shape_custom_body(body, request)


def build_copilot_headers(request: ModelRequest) -> dict[str, str]:
    """Who asks (an agent after the first turn is not billed as a user), and whether there are pictures."""
    last = request.messages[-1] if request.messages else None
    found = {
        "Editor-Version": "vscode/1.107.0",
        "Copilot-Integration-Id": "vscode-chat",
        "Openai-Intent": "conversation-edits",
        "X-Initiator": "user" if isinstance(last, UserMessage) else "agent",
    }
    if any(_pictured(message) for message in request.messages):
        found["Copilot-Vision-Request"] = "true"
    return {**found, **custom.build_custom_headers(request)}


def _pictured(message: object) -> bool:
    if isinstance(message, UserMessage):
        return any(isinstance(block, ImageBlock) for block in message.blocks)
    return isinstance(message, ToolResult) and any(isinstance(block, ImageBlock) for block in message.content)


def can_copilot_reason(model_id: str) -> bool:
    return claude.can_claude_reason(model_id) or model_id.startswith(("gpt-5", "o3", "o4", "gemini-2.5", "gemini-3"))


GITHUB_COPILOT = Vendor(
    id="github-copilot",
    name="GitHub Copilot",
    api="openai-completions",
    base_url="https://api.individual.githubcopilot.com",
    keys=("COPILOT_GITHUB_TOKEN",),
    models=(
        VendorModel("claude-sonnet-4.6", "Claude Sonnet 4.6", True, True, context_window=200_000, max_tokens=32_000),
        VendorModel("gpt-5.4", "GPT-5.4", True, True, context_window=400_000, max_tokens=128_000),
        VendorModel("gemini-3-pro-preview", "Gemini 3 Pro", True, True, context_window=128_000, max_tokens=64_000),
        VendorModel("gpt-4.1", "GPT-4.1", False, True, context_window=128_000, max_tokens=16_384),
    ),
    profile=resolve_copilot_profile,
    shape=shape_copilot_body,
    headers=build_copilot_headers,
    reasons=can_copilot_reason,
)
