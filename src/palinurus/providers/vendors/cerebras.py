"""Cerebras. Very high speed. GPT-OSS always thinks, the others can be told not to."""

from __future__ import annotations

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel
from palinurus.providers.vendors import custom, efforts
from palinurus.providers.vendors.custom import Body


def _glm(model: ModelSpec) -> bool:
    return "glm-" in model.ref.model.lower() and not thinking.read_efforts(model)


def resolve_cerebras_profile(model: ModelSpec) -> ThinkingProfile:
    """On and off for GLM, the base levels for the rest."""
    return custom.BINARY if _glm(model) else custom.resolve_custom_profile(model)


def shape_cerebras_body(body: Body, request: ModelRequest) -> Body:
    """`reasoning_effort`; GLM thinks unless told "none", and has no degrees."""
    model = request.model
    if "thinkingFormat" in model.compat or thinking.read_efforts(model):
        return custom.shape_custom_body(body, request)
    if not thinking.can_think(model, request.level) or (_glm(model) and custom.is_thinking(request)):
        return body
    switched = _glm(model) or "qwen" in model.ref.model.lower()
    return efforts.add_effort(body, request, (*(("none",) if switched else ()), "low", "medium", "high"))


VENDOR = Vendor(
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
    reasons=lambda model_id: any(word in model_id.lower() for word in ("gpt-oss", "glm-", "qwen-3")),
)
