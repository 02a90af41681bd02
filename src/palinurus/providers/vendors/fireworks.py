"""Fireworks AI. Which efforts a model takes depends on its family."""

from __future__ import annotations

import re

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel
from palinurus.providers.vendors import custom, efforts
from palinurus.providers.vendors.custom import Body

# First match wins; families that are not here take the common three.
_EFFORTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"deepseek-v4.*", ("none", "low", "medium", "high", "xhigh")),
    (r"glm-5p[3-9].*", ("none", "low", "high", "max")),
    (r"glm-.*", ("none", "high", "max")),
)


def list_fireworks_efforts(model: ModelSpec) -> tuple[str, ...]:
    """The efforts of a model: what the config lists, else its family's."""
    name = efforts.strip_model_id(model.ref.model)
    family = next((words for pattern, words in _EFFORTS if re.fullmatch(pattern, name)), ("low", "medium", "high"))
    return thinking.read_efforts(model) or family


def resolve_fireworks_profile(model: ModelSpec) -> ThinkingProfile:
    """The base levels, and what the family has above them."""
    if "thinkingFormat" in model.compat or model.api != "openai-completions":
        return custom.resolve_custom_profile(model)
    return efforts.extend_profile(list_fireworks_efforts(model))


def shape_fireworks_body(body: Body, request: ModelRequest) -> Body:
    """`reasoning_effort` in the words of the family; "none" only where it is one."""
    model = request.model
    if "thinkingFormat" in model.compat:
        return custom.shape_custom_body(body, request)
    if not thinking.can_think(model, request.level) or model.compat.get("supportsReasoningEffort") is False:
        return body
    return efforts.add_effort(body, request, list_fireworks_efforts(model))


VENDOR = Vendor(
    id="fireworks",
    name="Fireworks AI",
    api="openai-completions",
    base_url="https://api.fireworks.ai/inference/v1",
    keys=("FIREWORKS_API_KEY",),
    models=tuple(
        VendorModel(f"accounts/fireworks/models/{id}", name, True, vision, context_window=window, max_tokens=32_768)
        for id, name, vision, window in (
            ("kimi-k2p6", "Kimi K2.6", True, 262_144),
            ("glm-5", "GLM-5", False, 202_752),
            ("gpt-oss-120b", "GPT-OSS 120B", False, 131_072),
        )
    ),
    profile=resolve_fireworks_profile,
    shape=shape_fireworks_body,
    reasons=lambda model_id: any(
        word in model_id.lower() for word in ("gpt-oss", "kimi-k2p", "glm-", "deepseek-v", "-r1")
    ),
)
