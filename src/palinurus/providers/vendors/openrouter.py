"""OpenRouter. Chat Completions with a nested `reasoning` field."""

from __future__ import annotations

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel, make_thinking_model
from palinurus.patterns import compile_late
from palinurus.providers.vendors import claude, custom
from palinurus.providers.vendors.custom import Body

_DEEPSEEK_V4 = compile_late(r"deepseek/deepseek-v4-.*")
# These refuse the field or think by themselves: nothing is added to their requests.
_BARE = compile_late(r"x-ai/.*|(openrouter/)?hunter-alpha.*")
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


VENDOR = Vendor(
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
