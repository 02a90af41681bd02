"""Servers that people run themselves and that speak Chat Completions: SGLang, LM Studio, LiteLLM;
vLLM with a switch for thinking.
"""

from __future__ import annotations

import msgspec

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor
from palinurus.providers.vendors import custom
from palinurus.providers.vendors.custom import Body


def _server(id: str, name: str, base_url: str, keys: tuple[str, ...], *, keyless: bool = True) -> Vendor:
    """Without quirks: thinking as the config describes it."""
    profile = custom.resolve_custom_profile
    return Vendor(id, name, "openai-completions", base_url, keys=keys, profile=profile, keyless=keyless)


SGLANG = _server("sglang", "SGLang", "http://127.0.0.1:30000/v1", ("SGLANG_API_KEY",))
LMSTUDIO = _server("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", ("LMSTUDIO_API_KEY", "LM_API_TOKEN"))
LITELLM = _server("litellm", "LiteLLM", "http://127.0.0.1:4000", ("LITELLM_API_KEY",), keyless=False)  # a proxy


def _nemotron(model: ModelSpec) -> bool:
    return "nemotron-3" in model.ref.model.lower() and "thinkingFormat" not in model.compat


def resolve_vllm_profile(model: ModelSpec) -> ThinkingProfile:
    """On and off for Qwen formats and Nemotron 3."""
    return custom.BINARY if _nemotron(model) else custom.resolve_custom_profile(model)


def shape_vllm_body(body: Body, request: ModelRequest) -> Body:
    """The chat template's switch, or the common rules."""
    if _nemotron(request.model) and thinking.can_think(request.model, request.level):
        return custom.add_template_flag(body, request)
    return custom.shape_custom_body(body, request)


VLLM = msgspec.structs.replace(
    _server("vllm", "vLLM", "http://127.0.0.1:8000/v1", ("VLLM_API_KEY",)),
    profile=resolve_vllm_profile,
    shape=shape_vllm_body,
    reasons=lambda model_id: "nemotron-3" in model_id.lower(),
)
