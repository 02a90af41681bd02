"""xAI: the Grok models. Few take an effort; fast mode is another model id."""

from __future__ import annotations

import re
from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.vendor import Vendor, VendorModel
from palinurus.patterns import compile_late
from palinurus.providers.vendors import custom, efforts

_LEVELS = thinking.make_profile(thinking.BASE_LEVELS, "low")
_FAST: dict[str, str] = {
    "grok-3": "grok-3-fast",
    "grok-3-mini": "grok-3-mini-fast",
    "grok-4": "grok-4-fast",
    "grok-4-0709": "grok-4-fast",
}
# Models that take an effort, and which. The others refuse the field.
_EFFORTS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (compile_late(r"grok-3-mini.*"), ("low", "high")),
    (compile_late(r"grok-4\.3.*"), ("none", "low", "medium", "high")),
    (compile_late(r"grok-(4\.[4-9]|[5-9]).*|grok-latest"), ("low", "medium", "high")),  # these cannot be switched off
)


def shape_xai_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """The effort where it is taken; the fast variant of the model in fast mode."""
    model = request.model
    shaped = custom.omit_fields(body, "reasoning_effort")
    name = efforts.strip_model_id(model.ref.model)
    listed = thinking.read_efforts(model)
    taken = listed or next((words for pattern, words in _EFFORTS if pattern.fullmatch(name)), ())
    effort = efforts.choose_effort(request.level, model, taken) if thinking.can_think(model, request.level) else None
    if effort:
        shaped["reasoning_effort"] = effort
    if request.fast and shaped.get("model") in _FAST:
        shaped["model"] = _FAST[shaped["model"]]
    return shaped


def can_xai_reason(model_id: str) -> bool:
    name = model_id.lower()
    return bool(re.match(r"grok-(3-mini|[4-9]|code|latest)", name)) and "non-reasoning" not in name


VENDOR = Vendor(
    id="xai",
    name="xAI",
    api="openai-completions",
    base_url="https://api.x.ai/v1",
    keys=("XAI_API_KEY",),
    models=(
        VendorModel("grok-4.3", "Grok 4.3", True, True, context_window=1_000_000, max_tokens=64_000),
        VendorModel("grok-4", "Grok 4", True, True, context_window=256_000, max_tokens=64_000),
        VendorModel("grok-4-fast", "Grok 4 Fast", True, True, context_window=2_000_000, max_tokens=30_000),
        VendorModel("grok-3", "Grok 3", False, context_window=131_072, max_tokens=8192),
        VendorModel("grok-3-mini", "Grok 3 mini", True, context_window=131_072, max_tokens=8192),
    ),
    profile=lambda model: _LEVELS,
    shape=shape_xai_body,
    aliases=("x-ai",),
    reasons=can_xai_reason,
)
