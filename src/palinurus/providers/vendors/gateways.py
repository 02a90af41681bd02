"""Addresses with many makers' models behind them: Vercel AI Gateway, OpenRouter, GitHub Copilot."""

from __future__ import annotations

import re

from palinurus.core.levels import thinking
from palinurus.core.types.messages import ImageBlock, UserMessage
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel, make_thinking_model
from palinurus.providers.vendors import claude, custom, efforts
from palinurus.providers.vendors.custom import Body

# --- Vercel AI Gateway: an Anthropic-compatible address -------------------------------------------------------

_XHIGH = re.compile(r"openai/gpt-(5\.[45].*|5\.3-codex|5\.2(-codex)?|5\.1-codex)")
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


VERCEL_AI_GATEWAY = Vendor(
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


# --- OpenRouter: Chat Completions with a nested `reasoning` field ---------------------------------------------

_DEEPSEEK_V4 = re.compile(r"deepseek/deepseek-v4-.*")
# These refuse the field or think by themselves: nothing is added to their requests.
_BARE = re.compile(r"x-ai/.*|(openrouter/)?hunter-alpha.*")
_WORDS: dict[str, str] = {"adaptive": "medium", "max": "xhigh"}


def resolve_openrouter_profile(model: ModelSpec) -> ThinkingProfile:
    """DeepSeek V4 has xhigh; the others the base levels and what the catalog entry adds."""
    if _DEEPSEEK_V4.fullmatch(model.ref.model.lower()):
        return thinking.make_profile((*thinking.BASE_LEVELS, "xhigh"), "high")
    return thinking.make_base_profile(model)


def shape_openrouter_body(body: Body, request: ModelRequest) -> Body:
    """`reasoning.effort`, never a top-level `reasoning_effort`; off adds nothing."""
    name = request.model.ref.model.lower()
    shaped = custom.omit_fields(body, "reasoning_effort")
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
        make_thinking_model("anthropic/claude-sonnet-4.6", "Claude Sonnet 4.6", 1_000_000),
        make_thinking_model("deepseek/deepseek-v4-pro", "DeepSeek V4 Pro", 1_000_000, vision=False),
        make_thinking_model("deepseek/deepseek-v4-flash", "DeepSeek V4 Flash", 1_000_000, vision=False),
        make_thinking_model("moonshotai/kimi-k2.6", "Kimi K2.6", 262_144, 32_768),
    ),
    profile=resolve_openrouter_profile,
    shape=shape_openrouter_body,
    headers=build_openrouter_headers,
)


# --- GitHub Copilot: GPT, Claude and Gemini models of a subscription, behind three APIs -----------------------
# The key is a short-lived Copilot token that the sign-in exchanges for the GitHub token.


def shape_copilot_body(body: Body, request: ModelRequest) -> Body:
    """The common rules; the Responses endpoint refuses effort none."""
    if request.model.api == "openai-completions":
        return custom.shape_custom_body(body, request)
    return efforts.add_responses_effort(body, request, none=False)


def build_copilot_headers(request: ModelRequest) -> dict[str, str]:
    """Who asks (an agent after the first turn is not billed as a user), and whether there are pictures."""
    last = request.messages[-1] if request.messages else None
    found = {
        "Editor-Version": "vscode/1.107.0",
        "Copilot-Integration-Id": "vscode-chat",
        "Openai-Intent": "conversation-edits",
        "X-Initiator": "user" if isinstance(last, UserMessage) else "agent",
    }
    shown = (m.blocks if isinstance(m, UserMessage) else m.content for m in request.messages)
    if any(isinstance(block, ImageBlock) for blocks in shown for block in blocks):
        found["Copilot-Vision-Request"] = "true"
    return {**found, **custom.build_custom_headers(request)}


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
    shape=shape_copilot_body,
    apis=("openai-responses", "openai-codex-responses"),
    headers=build_copilot_headers,
    reasons=can_copilot_reason,
)
