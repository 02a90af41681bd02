"""Together AI: open models; a switch `reasoning.enabled`, efforts for GPT-OSS."""

from __future__ import annotations

from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelInfo, Request
from palinurus.core.types.vendor import Known, Profile, Vendor
from palinurus.providers.vendors import custom


def _switch(model: ModelInfo) -> bool:
    return "gpt-oss" not in model.ref.model.lower() and "thinkingFormat" not in model.compat


def profile(model: ModelInfo) -> Profile:
    """On and off; the base levels for GPT-OSS and whatever the config describes."""
    return custom.BINARY if _switch(model) and not thinking.efforts(model) else custom.profile(model)


def shape(body: dict[str, Any], request: Request) -> dict[str, Any]:
    """The switch, or the common rules."""
    model = request.model
    if model.api == "openai-completions" and model.reasoning and _switch(model) and not thinking.efforts(model):
        return custom.enabled(body, request)
    return custom.shape(body, request)


VENDOR = Vendor(
    id="together",
    name="Together AI",
    api="openai-completions",
    base_url="https://api.together.xyz/v1",
    keys=("TOGETHER_API_KEY",),
    models=(
        Known("openai/gpt-oss-120b", "GPT-OSS 120B", True, context_window=131_072, max_tokens=32_768),
        Known("moonshotai/Kimi-K2.6", "Kimi K2.6", True, True, context_window=262_144, max_tokens=32_768),
        Known("zai-org/GLM-5", "GLM-5", True, context_window=202_752, max_tokens=32_768),
        Known("deepseek-ai/DeepSeek-V3.1", "DeepSeek V3.1", True, context_window=131_072, max_tokens=32_768),
    ),
    profile=profile,
    shape=shape,
    reasons=lambda model_id: any(word in model_id.lower() for word in ("gpt-oss", "kimi-k2.", "glm-", "v3.1", "-r1")),
)
