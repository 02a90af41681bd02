"""Groq. High speed. GPT-OSS takes efforts, Qwen only none or default."""

from __future__ import annotations

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel
from palinurus.providers.vendors import custom
from palinurus.providers.vendors.custom import Body


def resolve_groq_profile(model: ModelSpec) -> ThinkingProfile:
    """On and off for Qwen, the base levels for the rest."""
    return custom.BINARY if "qwen" in model.ref.model.lower() else thinking.make_base_profile(model)


def shape_groq_body(body: Body, request: ModelRequest) -> Body:
    """`reasoning_effort` in the words each family takes."""
    if "qwen" not in request.model.ref.model.lower() or not thinking.can_think(request.model, request.level):
        return custom.shape_custom_body(body, request)
    if not custom.is_thinking(request):
        return {**body, "reasoning_effort": "none"}
    # Without the format thoughts come as tags inside the text unless tools are offered.
    return {**body, "reasoning_effort": "default", "reasoning_format": "parsed"}


VENDOR = Vendor(
    id="groq",
    name="Groq",
    api="openai-completions",
    base_url="https://api.groq.com/openai/v1",
    keys=("GROQ_API_KEY",),
    models=(
        VendorModel("openai/gpt-oss-120b", "GPT-OSS 120B", True, context_window=131_072, max_tokens=65_536),
        VendorModel("openai/gpt-oss-20b", "GPT-OSS 20B", True, context_window=131_072, max_tokens=65_536),
        VendorModel("qwen/qwen3-32b", "Qwen3 32B", True, context_window=131_072, max_tokens=40_960),
        VendorModel("llama-3.3-70b-versatile", "Llama 3.3 70B", False, context_window=131_072, max_tokens=32_768),
    ),
    profile=resolve_groq_profile,
    shape=shape_groq_body,
    reasons=lambda model_id: "gpt-oss" in model_id or "qwen3" in model_id,
)
