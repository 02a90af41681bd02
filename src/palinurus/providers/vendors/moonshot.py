"""Moonshot. The Kimi models. On or off; kimi-k2.7-code always thinks."""

from __future__ import annotations

from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.vendor import Vendor, VendorModel
from palinurus.providers.vendors import custom
from palinurus.providers.vendors.custom import Body, is_named

_ON, _OFF = (True, "enabled", "on"), (False, "disabled", "off", "none")


def shape_moonshot_body(body: Body, request: ModelRequest) -> Body:
    """The switch; while thinking, a tool choice other than auto or none becomes auto."""
    model = request.model
    shaped = custom.omit_fields(body, "thinking", "reasoning_effort")
    if not is_named(model.ref.model, "kimi-k2.7-code"):
        if not thinking.can_think(model, request.level):
            return shaped
        shaped["thinking"] = _kimi_thinking(request)
        if shaped["thinking"]["type"] == "disabled":
            return shaped
    free = shaped.get("tool_choice", "auto") in ("auto", "none")
    return shaped if free else {**shaped, "tool_choice": "auto"}


def _kimi_thinking(request: ModelRequest) -> dict[str, Any]:
    """The `thinking` field: the model's own params beat the level."""
    given = request.model.params.get("thinking")
    fields = given if isinstance(given, dict) else {}
    word = fields.get("type") if fields else given
    on = word in _ON or (word not in _OFF and custom.is_thinking(request))
    found: dict[str, Any] = {"type": "enabled" if on else "disabled"}
    if on and fields.get("keep") == "all" and is_named(request.model.ref.model, "kimi-k2.6"):
        found["keep"] = "all"  # only this generation can keep the thinking of earlier turns
    return found


VENDOR = Vendor(
    id="moonshot",
    name="Moonshot AI",
    api="openai-completions",
    base_url="https://api.moonshot.ai/v1",
    keys=("MOONSHOT_API_KEY", "KIMI_API_KEY"),
    models=(
        VendorModel("kimi-k2.6", "Kimi K2.6", True, True, context_window=262_144, max_tokens=32_768),
        VendorModel("kimi-k2.7-code", "Kimi K2.7 Code", True, True, context_window=262_144, max_tokens=32_768),
        VendorModel("kimi-k2.5", "Kimi K2.5", True, True, context_window=262_144, max_tokens=32_768),
        VendorModel("kimi-k2-thinking", "Kimi K2 Thinking", True, context_window=262_144, max_tokens=32_768),
    ),
    profile=custom.match_profile(custom.ALWAYS, "kimi-k2.7-code", otherwise=custom.BINARY),
    shape=shape_moonshot_body,
    aliases=("kimi", "moonshotai"),
    reasons=lambda model_id: is_named(model_id, "kimi-k2.", "kimi-k3", "kimi-k2-thinking"),
)
