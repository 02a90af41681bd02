"""vLLM: a server for local models. Qwen and Nemotron are switched through the chat template."""

from __future__ import annotations

from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor
from palinurus.providers.vendors import custom

# SGLang: a server for local models; thinking is switched in the chat template where the config says so.

SGLANG = Vendor(
    id="sglang",
    name="SGLang",
    api="openai-completions",
    base_url="http://127.0.0.1:30000/v1",
    keys=("SGLANG_API_KEY",),
    profile=custom.resolve_custom_profile,
    shape=custom.shape_custom_body,
    headers=custom.build_custom_headers,
    keyless=True,
)


# LM Studio: a desktop server for local models.

LMSTUDIO = Vendor(
    id="lmstudio",
    name="LM Studio",
    api="openai-completions",
    base_url="http://127.0.0.1:1234/v1",
    keys=("LMSTUDIO_API_KEY", "LM_API_TOKEN"),
    profile=custom.resolve_custom_profile,
    shape=custom.shape_custom_body,
    headers=custom.build_custom_headers,
    keyless=True,
)


# LiteLLM: a proxy in front of other vendors; what its models can do is up to the config.

LITELLM = Vendor(
    id="litellm",
    name="LiteLLM",
    api="openai-completions",
    base_url="http://127.0.0.1:4000",
    keys=("LITELLM_API_KEY",),
    profile=custom.resolve_custom_profile,
    shape=custom.shape_custom_body,
    headers=custom.build_custom_headers,
)


def _nemotron(model: ModelSpec) -> bool:
    return "nemotron-3" in model.ref.model.lower() and "thinkingFormat" not in model.compat


def resolve_vllm_profile(model: ModelSpec) -> ThinkingProfile:
    """On and off for Qwen formats and Nemotron 3."""
    return custom.BINARY if _nemotron(model) else custom.resolve_custom_profile(model)


def shape_vllm_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """The chat template's switch, or the common rules."""
    model = request.model
    if model.api == "openai-completions" and thinking.can_think(model, request.level) and _nemotron(model):
        return custom.add_template_flag(body, request)
    return custom.shape_custom_body(body, request)


VLLM = Vendor(
    id="vllm",
    name="vLLM",
    api="openai-completions",
    base_url="http://127.0.0.1:8000/v1",
    keys=("VLLM_API_KEY",),
    profile=resolve_vllm_profile,
    shape=shape_vllm_body,
    headers=custom.build_custom_headers,
    keyless=True,
    reasons=lambda model_id: "nemotron-3" in model_id.lower(),
)
