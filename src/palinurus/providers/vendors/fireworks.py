"""Fireworks AI: open models; which efforts one takes depends on its family."""

from __future__ import annotations

import re
from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel
from palinurus.providers.vendors import custom, efforts

# First match wins; families that are not here take the common three.
_EFFORTS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"deepseek-v4.*"), ("none", "low", "medium", "high", "xhigh")),
    (re.compile(r"glm-5p[3-9].*"), ("none", "low", "high", "max")),
    (re.compile(r"glm-.*"), ("none", "high", "max")),
)


def list_fireworks_efforts(model: ModelSpec) -> tuple[str, ...]:
    """The efforts of a model: what the config lists, else its family's."""
    name = efforts.strip_model_id(model.ref.model)
    family = next((words for pattern, words in _EFFORTS if pattern.fullmatch(name)), ("low", "medium", "high"))
    return thinking.read_efforts(model) or family


def resolve_fireworks_profile(model: ModelSpec) -> ThinkingProfile:
    """The base levels, and what the family has above them."""
    if "thinkingFormat" in model.compat or model.api != "openai-completions":
        return custom.resolve_custom_profile(model)
    return thinking.make_profile(
        (*thinking.BASE_LEVELS, *(level for level in ("xhigh", "max") if level in list_fireworks_efforts(model)))
    )


def shape_fireworks_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """`reasoning_effort` in the words of the family; "none" only where it is one."""
    model = request.model
    if model.api != "openai-completions" or "thinkingFormat" in model.compat:
        return custom.shape_custom_body(body, request)
    if not thinking.can_think(model, request.level) or model.compat.get("supportsReasoningEffort") is False:
        return body
    word = efforts.choose_effort(request.level, model, list_fireworks_efforts(model))
    return {**body, "reasoning_effort": word} if word else body


FIREWORKS = Vendor(
    id="fireworks",
    name="Fireworks AI",
    api="openai-completions",
    base_url="https://api.fireworks.ai/inference/v1",
    keys=("FIREWORKS_API_KEY",),
    models=(
        VendorModel(
            "accounts/fireworks/models/kimi-k2p6", "Kimi K2.6", True, True, context_window=262_144, max_tokens=32_768
        ),
        VendorModel("accounts/fireworks/models/glm-5", "GLM-5", True, context_window=202_752, max_tokens=32_768),
        VendorModel(
            "accounts/fireworks/models/gpt-oss-120b", "GPT-OSS 120B", True, context_window=131_072, max_tokens=32_768
        ),
    ),
    profile=resolve_fireworks_profile,
    shape=shape_fireworks_body,
    headers=custom.build_custom_headers,
    reasons=lambda model_id: any(
        word in model_id.lower() for word in ("gpt-oss", "kimi-k2p", "glm-", "deepseek-v", "-r1")
    ),
)
