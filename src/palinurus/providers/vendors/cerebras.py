"""Cerebras: open models at very high speed. GPT-OSS always thinks, the others can be told not to."""

from __future__ import annotations

from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel
from palinurus.providers.vendors import custom, efforts


def _glm(model: ModelSpec) -> bool:
    return "glm-" in model.ref.model.lower() and not thinking.read_efforts(model)


def resolve_cerebras_profile(model: ModelSpec) -> ThinkingProfile:
    """On and off for GLM, the base levels for the rest."""
    return custom.BINARY if _glm(model) else custom.resolve_custom_profile(model)


def shape_cerebras_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """`reasoning_effort`; GLM thinks unless told "none", and has no degrees."""
    model = request.model
    if model.api != "openai-completions" or "thinkingFormat" in model.compat or thinking.read_efforts(model):
        return custom.shape_custom_body(body, request)
    if not thinking.can_think(model, request.level) or (_glm(model) and custom.is_thinking(request)):
        return body
    switched = _glm(model) or "qwen" in model.ref.model.lower()
    words = (*(("none",) if switched else ()), "low", "medium", "high")
    word = efforts.choose_effort(request.level, model, words)
    return {**body, "reasoning_effort": word} if word else body


CEREBRAS = Vendor(
    id="cerebras",
    name="Cerebras",
    api="openai-completions",
    base_url="https://api.cerebras.ai/v1",
    keys=("CEREBRAS_API_KEY",),
    models=(
        VendorModel("gpt-oss-120b", "GPT-OSS 120B", True, context_window=131_072, max_tokens=32_768),
        VendorModel("zai-glm-4.7", "GLM-4.7", True, context_window=131_072, max_tokens=32_768),
    ),
    profile=resolve_cerebras_profile,
    shape=shape_cerebras_body,
    headers=custom.build_custom_headers,
    reasons=lambda model_id: any(word in model_id.lower() for word in ("gpt-oss", "glm-", "qwen-3")),
)
