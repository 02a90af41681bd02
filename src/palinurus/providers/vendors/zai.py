"""Z.AI: the GLM models. On or off, except GLM-5.2, which has two efforts."""

from __future__ import annotations

from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel
from palinurus.providers.vendors import custom

_EFFORTS = thinking.make_profile(("off", "low", "high", "max"), "off")


def _efforts(model_id: str) -> bool:
    return model_id.lower().rpartition("/")[2].startswith("glm-5.2")


def resolve_zai_profile(model: ModelSpec) -> ThinkingProfile:
    """off, low, high, max on GLM-5.2; off and on elsewhere."""
    return _EFFORTS if _efforts(model.ref.model) else custom.BINARY


def shape_zai_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """The `thinking` switch, the effort of GLM-5.2, and streamed tool calls unless switched off."""
    model = request.model
    if model.api != "openai-completions":
        return custom.shape_custom_body(body, request)
    shaped = {key: value for key, value in body.items() if key != "reasoning_effort"}
    if shaped.get("tools") and model.params.get("tool_stream", True) is not False:
        shaped.setdefault("tool_stream", True)
    if not thinking.can_think(model, request.level):
        return shaped
    if not custom.is_thinking(request):
        return {**shaped, "thinking": {"type": "disabled"}}
    if _efforts(model.ref.model):
        shaped["reasoning_effort"] = "max" if request.level in ("xhigh", "max") else "high"
    if model.params.get("preserveThinking") is True:
        shaped["thinking"] = {"type": "enabled", "clear_thinking": False}
    return shaped


def _known(id: str, name: str, *, vision: bool = False) -> VendorModel:
    return VendorModel(id, name, reasoning=True, vision=vision, context_window=204_800, max_tokens=131_072)


VENDOR = Vendor(
    id="zai",
    name="Z.AI",
    api="openai-completions",
    base_url="https://api.z.ai/api/paas/v4",
    keys=("ZAI_API_KEY", "Z_AI_API_KEY"),
    models=(
        _known("glm-5.2", "GLM-5.2"),
        _known("glm-5.1", "GLM-5.1"),
        _known("glm-5", "GLM-5"),
        _known("glm-4.7", "GLM-4.7"),
        _known("glm-4.6", "GLM-4.6"),
        _known("glm-4.6v", "GLM-4.6V", vision=True),
    ),
    profile=resolve_zai_profile,
    shape=shape_zai_body,
    aliases=("z.ai", "z-ai", "zhipu"),
    reasons=lambda model_id: "glm-" in model_id.lower(),
)
