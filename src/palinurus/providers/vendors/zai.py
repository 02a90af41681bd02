"""Z.AI. The GLM models. On or off, except GLM-5.2, which has two efforts."""

from __future__ import annotations

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.vendor import Vendor, VendorModel
from palinurus.providers.vendors import custom
from palinurus.providers.vendors.custom import Body, is_named

_GLM_EFFORTS = thinking.make_profile(("off", "low", "high", "max"), "off")


def shape_zai_body(body: Body, request: ModelRequest) -> Body:
    """The `thinking` switch, the effort of GLM-5.2, and streamed tool calls unless switched off."""
    model = request.model
    shaped = custom.omit_fields(body, "reasoning_effort")
    if shaped.get("tools") and model.params.get("tool_stream", True) is not False:
        shaped.setdefault("tool_stream", True)
    if not thinking.can_think(model, request.level):
        return shaped
    if not custom.is_thinking(request):
        return {**shaped, "thinking": {"type": "disabled"}}
    if is_named(model.ref.model, "glm-5.2"):
        shaped["reasoning_effort"] = "max" if request.level in ("xhigh", "max") else "high"
    if model.params.get("preserveThinking") is True:
        shaped["thinking"] = {"type": "enabled", "clear_thinking": False}
    return shaped


def _glm(id: str, *, vision: bool = False) -> VendorModel:
    return VendorModel(id, id.upper(), reasoning=True, vision=vision, context_window=204_800, max_tokens=131_072)


VENDOR = Vendor(
    id="zai",
    name="Z.AI",
    api="openai-completions",
    base_url="https://api.z.ai/api/paas/v4",
    keys=("ZAI_API_KEY", "Z_AI_API_KEY"),
    models=(*map(_glm, ("glm-5.2", "glm-5.1", "glm-5", "glm-4.7", "glm-4.6")), _glm("glm-4.6v", vision=True)),
    profile=custom.match_profile(_GLM_EFFORTS, "glm-5.2", otherwise=custom.BINARY),
    shape=shape_zai_body,
    aliases=("z.ai", "z-ai", "zhipu"),
    reasons=lambda model_id: "glm-" in model_id.lower(),
)
