"""Xiaomi. The MiMo models, with the same switch and no degrees."""

from __future__ import annotations

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.vendor import Vendor, VendorModel
from palinurus.providers.vendors import custom
from palinurus.providers.vendors.custom import Body

_NO_ADAPTIVE = thinking.make_profile((*thinking.BASE_LEVELS, "xhigh", "max"), "high")


def shape_xiaomi_body(body: Body, request: ModelRequest) -> Body:
    """On or off: the address takes no degrees."""
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
    profile=custom.match_profile(_NO_ADAPTIVE, "mimo-v2"),
    shape=shape_xiaomi_body,
    reasons=lambda model_id: "mimo-v2" in model_id.lower() and "flash" not in model_id.lower(),
)
