"""Moonshot: the Kimi models. On or off; kimi-k2.7-code always thinks."""

from __future__ import annotations

from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel
from palinurus.providers.vendors import custom

_SWITCH: dict[object, bool] = {
    True: True,
    False: False,
    "enabled": True,
    "on": True,
    "disabled": False,
    "off": False,
    "none": False,
}


def _name(model_id: str) -> str:
    return model_id.lower().rpartition("/")[2]


def _always(model_id: str) -> bool:
    return _name(model_id).startswith("kimi-k2.7-code")


def resolve_moonshot_profile(model: ModelSpec) -> ThinkingProfile:
    """off and on; only on where it cannot be switched off."""
    return custom.ALWAYS if _always(model.ref.model) else custom.BINARY


def _wanted(request: ModelRequest) -> dict[str, Any]:
    """The `thinking` field: the model's own params beat the level."""
    given = request.model.params.get("thinking")
    fields = given if isinstance(given, dict) else {}
    word = fields.get("type") if fields else given
    on = _SWITCH.get(word) if isinstance(word, (str, bool)) else None
    if on is None:
        on = custom.is_thinking(request)
    found: dict[str, Any] = {"type": "enabled" if on else "disabled"}
    if on and fields.get("keep") == "all" and _name(request.model.ref.model).startswith("kimi-k2.6"):
        found["keep"] = "all"  # only this generation can keep the thinking of earlier turns
    return found


def shape_moonshot_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """The switch; while thinking, a tool choice other than auto or none becomes auto."""
    model = request.model
    if model.api != "openai-completions":
        return custom.shape_custom_body(body, request)
    shaped = {key: value for key, value in body.items() if key not in ("thinking", "reasoning_effort")}
    if _always(model.ref.model):
        return _auto(shaped)
    if not thinking.can_think(model, request.level):
        return shaped
    shaped["thinking"] = _wanted(request)
    return _auto(shaped) if shaped["thinking"]["type"] == "enabled" else shaped


def _auto(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "tool_choice": "auto"} if body.get("tool_choice", "auto") not in ("auto", "none") else body


def _known(id: str, name: str) -> VendorModel:
    return VendorModel(id, name, reasoning=True, vision=True, context_window=262_144, max_tokens=32_768)


VENDOR = Vendor(
    id="moonshot",
    name="Moonshot AI",
    api="openai-completions",
    base_url="https://api.moonshot.ai/v1",
    keys=("MOONSHOT_API_KEY", "KIMI_API_KEY"),
    models=(
        _known("kimi-k2.6", "Kimi K2.6"),
        _known("kimi-k2.7-code", "Kimi K2.7 Code"),
        _known("kimi-k2.5", "Kimi K2.5"),
        VendorModel("kimi-k2-thinking", "Kimi K2 Thinking", True, context_window=262_144, max_tokens=32_768),
    ),
    profile=resolve_moonshot_profile,
    shape=shape_moonshot_body,
    aliases=("kimi", "moonshotai"),
    reasons=lambda model_id: bool(_name(model_id).startswith(("kimi-k2.", "kimi-k3", "kimi-k2-thinking"))),
)
