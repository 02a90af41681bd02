"""MiniMax: the M models through an Anthropic-compatible address. M2 is quiet unless asked, M3 decides itself."""

from __future__ import annotations

from typing import Any

from palinurus.core.levels import spellings, thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel
from palinurus.providers.vendors import claude, custom

_M3 = thinking.make_profile(("off", "adaptive"), "adaptive")
_M2 = thinking.make_profile(thinking.BASE_LEVELS, "off")
_FAST: dict[str, str] = {"MiniMax-M2.7": "MiniMax-M2.7-highspeed"}


def _m3(model_id: str) -> bool:
    return model_id.lower().rpartition("/")[2].startswith("minimax-m3")


def resolve_minimax_profile(model: ModelSpec) -> ThinkingProfile:
    """M3: off and adaptive. M2: the base levels, off unless asked."""
    return _M3 if _m3(model.ref.model) else _M2


def shape_minimax_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """The `thinking` field, and fast mode as another model id."""
    model = request.model
    if model.api != "anthropic-messages":
        return custom.shape_custom_body(body, request)
    given = model.params.get("thinking")
    if isinstance(given, dict) or "thinking" in body:
        shaped = {**body, "thinking": given if isinstance(given, dict) else body["thinking"]}
    elif _m3(model.ref.model):
        shaped = {**body, "thinking": {"type": "adaptive" if custom.is_thinking(request) else "disabled"}}
    else:
        shaped = {"thinking": {"type": "disabled"}, **claude.shape_claude_body(body, request)}
    fast = request.fast if request.fast is not None else spellings.parse_fast(model.params.get("fastMode")) == "on"
    if fast and shaped.get("model") in _FAST:
        shaped["model"] = _FAST[shaped["model"]]
    return shaped


def _known(id: str, *, vision: bool = False) -> VendorModel:
    return VendorModel(
        id, id.replace("-", " "), reasoning=True, vision=vision, context_window=204_800, max_tokens=131_072
    )


VENDOR = Vendor(
    id="minimax",
    name="MiniMax",
    api="anthropic-messages",
    base_url="https://api.minimax.io/anthropic",
    keys=("MINIMAX_API_KEY",),
    auth_header="x-api-key",
    models=(
        _known("MiniMax-M3", vision=True),
        _known("MiniMax-M2.7"),
        _known("MiniMax-M2.7-highspeed"),
        _known("MiniMax-M2.5"),
    ),
    profile=resolve_minimax_profile,
    shape=shape_minimax_body,
    aliases=("minimax-portal",),
    reasons=lambda model_id: "minimax-m" in model_id.lower(),
)
