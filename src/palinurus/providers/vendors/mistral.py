"""Mistral: Chat Completions with an effort of none or high on two models, and tool call ids of nine letters."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel
from palinurus.providers.vendors import custom

_ADJUSTABLE = frozenset({"mistral-small-latest", "mistral-medium-3-5", "mistral-small-2603"})
_TWO = thinking.make_profile(("off", "high"), "off")
_ID = re.compile(r"[A-Za-z0-9]{9}")


def resolve_mistral_profile(model: ModelSpec) -> ThinkingProfile:
    """off and high where the effort can be set; the others think always or never."""
    return _TWO if model.ref.model.lower() in _ADJUSTABLE else thinking.make_base_profile(model)


def make_mistral_id(raw: str) -> str:
    """Nine letters or digits, the same for the same id; one that fits already stays."""
    return raw if _ID.fullmatch(raw) else hashlib.sha256(raw.encode("utf-8", "replace")).hexdigest()[:9]


def shape_mistral_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """The effort, and ids the server accepts."""
    if request.model.api != "openai-completions":
        return custom.shape_custom_body(body, request)
    shaped = {key: value for key, value in body.items() if key not in ("reasoning_effort", "store", "stream_options")}
    if request.model.ref.model.lower() in _ADJUSTABLE:
        shaped["reasoning_effort"] = "high" if custom.is_thinking(request) else "none"
    if "max_completion_tokens" in shaped:
        shaped["max_tokens"] = shaped.pop("max_completion_tokens")
    shaped["messages"] = [_renamed(message) for message in body.get("messages", [])]
    return shaped


def _renamed(message: dict[str, Any]) -> dict[str, Any]:
    changed = dict(message)
    if isinstance(message.get("tool_calls"), list):
        changed["tool_calls"] = [
            {**call, "id": make_mistral_id(str(call.get("id", "")))} for call in message["tool_calls"]
        ]
    if "tool_call_id" in message:
        changed["tool_call_id"] = make_mistral_id(str(message["tool_call_id"]))
    return changed


VENDOR = Vendor(
    id="mistral",
    name="Mistral AI",
    api="openai-completions",
    base_url="https://api.mistral.ai/v1",
    keys=("MISTRAL_API_KEY",),
    models=(
        VendorModel("mistral-medium-3-5", "Mistral Medium 3.5", True, True, context_window=262_144, max_tokens=32_768),
        VendorModel("mistral-small-latest", "Mistral Small", True, True, context_window=262_144, max_tokens=32_768),
        VendorModel("mistral-large-latest", "Mistral Large", False, True, context_window=262_144, max_tokens=16_384),
        VendorModel("codestral-latest", "Codestral", False, context_window=262_144, max_tokens=16_384),
    ),
    profile=resolve_mistral_profile,
    shape=shape_mistral_body,
    reasons=lambda model_id: model_id.lower() in _ADJUSTABLE or "magistral" in model_id.lower(),
)
