"""Together AI. A switch `reasoning.enabled`, efforts for GPT-OSS, and some that always think."""

from __future__ import annotations

import re

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel
from palinurus.patterns import compile_late
from palinurus.providers.vendors import custom
from palinurus.providers.vendors.custom import Body

_ALWAYS = compile_late(r"minimax-m2|deepseek-r1|kimi-k2-thinking")


def _plain(model: ModelSpec) -> bool:
    """Does the config describe efforts or a format of its own, or is it GPT-OSS?"""
    described = "thinkingFormat" in model.compat or bool(thinking.read_efforts(model))
    return described or "gpt-oss" in model.ref.model.lower()


def _always(model: ModelSpec) -> bool:
    return bool(_ALWAYS.search(model.ref.model.lower()))


def resolve_together_profile(model: ModelSpec) -> ThinkingProfile:
    """On and off, or on alone; the base levels for GPT-OSS and whatever the config describes."""
    if _plain(model):
        return custom.resolve_custom_profile(model)
    return custom.ALWAYS if _always(model) else custom.BINARY


def shape_together_body(body: Body, request: ModelRequest) -> Body:
    """The switch, nothing where there is none, or the common rules."""
    model = request.model
    if _plain(model):
        return custom.shape_custom_body(body, request)
    if _always(model) or not thinking.can_think(model, request.level):
        return body
    return custom.add_reasoning_flag(body, request)


VENDOR = Vendor(
    id="together",
    name="Together AI",
    api="openai-completions",
    base_url="https://api.together.xyz/v1",
    keys=("TOGETHER_API_KEY",),
    models=(
        VendorModel("openai/gpt-oss-120b", "GPT-OSS 120B", True, context_window=131_072, max_tokens=32_768),
        VendorModel("moonshotai/Kimi-K2.6", "Kimi K2.6", True, True, context_window=262_144, max_tokens=32_768),
        VendorModel("zai-org/GLM-5", "GLM-5", True, context_window=202_752, max_tokens=32_768),
        VendorModel("deepseek-ai/DeepSeek-V4-Pro", "DeepSeek V4 Pro", True, context_window=512_000, max_tokens=32_768),
        VendorModel("MiniMaxAI/MiniMax-M2.7", "MiniMax M2.7", True, context_window=202_752, max_tokens=32_768),
    ),
    profile=resolve_together_profile,
    shape=shape_together_body,
    reasons=lambda model_id: bool(
        re.search(r"gpt-oss|kimi-k2[.-](\d|thinking)|glm-|deepseek-(v3\.1|v4|r1)|minimax-m|qwen3\.", model_id.lower())
    ),
)
