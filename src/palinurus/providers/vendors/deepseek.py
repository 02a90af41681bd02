"""DeepSeek at its maker's: Chat Completions with a `thinking` switch and two efforts."""

from __future__ import annotations

from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel
from palinurus.providers.vendors import custom

_V4 = thinking.make_profile((*thinking.BASE_LEVELS, "xhigh", "max"), "high")


def _v4(model_id: str) -> bool:
    return model_id.lower().rpartition("/")[2].startswith("deepseek-v4")


def resolve_deepseek_profile(model: ModelSpec) -> ThinkingProfile:
    """V4 offers everything but adaptive; older models the base levels."""
    return _V4 if _v4(model.ref.model) else thinking.make_base_profile(model)


def shape_deepseek_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """V4: the switch, the effort high or max, and reasoning_content in the history as the server demands."""
    if request.model.api != "openai-completions":
        return custom.shape_custom_body(body, request)
    dropped = {key: value for key, value in body.items() if key not in ("reasoning", "reasoning_effort")}
    if not _v4(request.model.ref.model):
        return dropped  # the older ones choose thinking by model id and take no effort
    if not custom.is_thinking(request):
        dropped["messages"] = [_without(m) for m in body.get("messages", [])]
        return {**dropped, "thinking": {"type": "disabled"}}
    dropped["messages"] = [_with(m) for m in body.get("messages", [])]
    effort = "max" if request.level in ("xhigh", "max") else "high"
    return {**dropped, "thinking": {"type": "enabled"}, "reasoning_effort": effort}


def _without(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "reasoning_content"}


def _with(message: dict[str, Any]) -> dict[str, Any]:
    # Thinking turns are refused when an earlier answer lacks the field, even an empty one.
    if message.get("role") != "assistant" or "reasoning_content" in message:
        return message
    return {**message, "reasoning_content": ""}


VENDOR = Vendor(
    id="deepseek",
    name="DeepSeek",
    api="openai-completions",
    base_url="https://api.deepseek.com",
    keys=("DEEPSEEK_API_KEY",),
    models=(
        VendorModel("deepseek-v4-pro", "DeepSeek V4 Pro", True, context_window=1_000_000, max_tokens=64_000),
        VendorModel("deepseek-v4-flash", "DeepSeek V4 Flash", True, context_window=1_000_000, max_tokens=64_000),
        VendorModel("deepseek-chat", "DeepSeek Chat", False, context_window=128_000, max_tokens=8192),
        VendorModel("deepseek-reasoner", "DeepSeek Reasoner", True, context_window=128_000, max_tokens=64_000),
    ),
    profile=resolve_deepseek_profile,
    shape=shape_deepseek_body,
    reasons=lambda model_id: _v4(model_id) or "reasoner" in model_id,
)
