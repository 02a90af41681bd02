"""MiniMax. M2 is quiet unless asked, M3 decides itself."""

from __future__ import annotations

from palinurus.core.levels import spellings, thinking
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.vendor import Vendor, VendorModel
from palinurus.providers.vendors import claude, custom
from palinurus.providers.vendors.custom import Body, is_named

_M3 = thinking.make_profile(("off", "adaptive"), "adaptive")
_M2 = thinking.make_profile(thinking.BASE_LEVELS, "off")
_MINIMAX_FAST: dict[str, str] = {"MiniMax-M2.7": "MiniMax-M2.7-highspeed"}


def shape_minimax_body(body: Body, request: ModelRequest) -> Body:
    """The `thinking` field, and fast mode as another model id."""
    model = request.model
    given = model.params.get("thinking")
    if isinstance(given, dict) or "thinking" in body:
        shaped = {**body, "thinking": given if isinstance(given, dict) else body["thinking"]}
    elif is_named(model.ref.model, "minimax-m3"):  # told not to think it answers with nothing: off says nothing
        shaped = {**body, "thinking": {"type": "adaptive"}} if custom.is_thinking(request) else body
    else:
        shaped = {"thinking": {"type": "disabled"}, **claude.shape_claude_body(body, request)}
    fast = request.fast if request.fast is not None else spellings.parse_fast(model.params.get("fastMode")) == "on"
    if fast and shaped.get("model") in _MINIMAX_FAST:
        shaped["model"] = _MINIMAX_FAST[shaped["model"]]
    return shaped


def _minimax(id: str, *, vision: bool = False) -> VendorModel:
    name = id.replace("-", " ")
    return VendorModel(id, name, reasoning=True, vision=vision, context_window=204_800, max_tokens=131_072)


VENDOR = Vendor(
    id="minimax",
    name="MiniMax",
    api="anthropic-messages",
    base_url="https://api.minimax.io/anthropic",
    keys=("MINIMAX_API_KEY",),
    auth_header="x-api-key",
    models=(
        _minimax("MiniMax-M3", vision=True),
        _minimax("MiniMax-M2.7"),
        _minimax("MiniMax-M2.7-highspeed"),
        _minimax("MiniMax-M2.5"),
    ),
    profile=custom.match_profile(_M3, "minimax-m3", otherwise=_M2),
    shape=shape_minimax_body,
    aliases=("minimax-portal",),
    reasons=lambda model_id: "minimax-m" in model_id.lower(),
)
