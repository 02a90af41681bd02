"""Xiaomi: the MiMo models, with a `thinking` switch as DeepSeek has it."""

from __future__ import annotations

from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel
from palinurus.providers.vendors import custom

_V2 = thinking.make_profile((*thinking.BASE_LEVELS, "xhigh", "max"), "high")


def resolve_xiaomi_profile(model: ModelSpec) -> ThinkingProfile:
    """Everything but adaptive, high unless asked."""
    return _V2 if "mimo-v2" in model.ref.model.lower() else thinking.make_base_profile(model)


def shape_xiaomi_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """On or off: the address takes no degrees."""
    if request.model.api != "openai-completions":
        return custom.shape_custom_body(body, request)
    return custom.add_thinking_type(body, request) if thinking.can_think(request.model, request.level) else body


VENDOR = Vendor(
    id="xiaomi",
    name="Xiaomi MiMo",
    api="openai-completions",
    base_url="https://api.xiaomimimo.com/v1",
    keys=("XIAOMI_API_KEY",),
    models=(
        VendorModel("mimo-v2-pro", "MiMo V2 Pro", True, context_window=1_048_576, max_tokens=32_000),
        VendorModel("mimo-v2-omni", "MiMo V2 Omni", True, True, context_window=262_144, max_tokens=32_000),
        VendorModel("mimo-v2-flash", "MiMo V2 Flash", False, context_window=262_144, max_tokens=8192),
    ),
    profile=resolve_xiaomi_profile,
    shape=shape_xiaomi_body,
    reasons=lambda model_id: "mimo-v2" in model_id.lower() and "flash" not in model_id.lower(),
)
