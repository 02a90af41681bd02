"""DeepSeek. A `thinking` switch and two efforts."""

from __future__ import annotations

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.vendor import Vendor, VendorModel
from palinurus.providers.vendors import custom
from palinurus.providers.vendors.custom import Body, is_named

_NO_ADAPTIVE = thinking.make_profile((*thinking.BASE_LEVELS, "xhigh", "max"), "high")


def shape_deepseek_body(body: Body, request: ModelRequest) -> Body:
    """V4: the switch, the effort high or max, and reasoning_content in the history as the server demands."""
    dropped = custom.omit_fields(body, "reasoning", "reasoning_effort")
    if not is_named(request.model.ref.model, "deepseek-v4"):
        return dropped  # the older ones choose thinking by model id and take no effort
    messages = body.get("messages", [])
    if not custom.is_thinking(request):
        dropped["messages"] = [custom.omit_fields(message, "reasoning_content") for message in messages]
        return {**dropped, "thinking": {"type": "disabled"}}
    dropped["messages"] = [_with_reasoning(message) for message in messages]
    effort = "max" if request.level in ("xhigh", "max") else "high"
    return {**dropped, "thinking": {"type": "enabled"}, "reasoning_effort": effort}


def _with_reasoning(message: Body) -> Body:
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
    profile=custom.match_profile(_NO_ADAPTIVE, "deepseek-v4"),
    shape=shape_deepseek_body,
    reasons=lambda model_id: is_named(model_id, "deepseek-v4") or "reasoner" in model_id,
)
