"""Mistral. An effort of none or high on some models, and tool call ids of nine letters."""

from __future__ import annotations

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.vendor import Vendor, VendorModel
from palinurus.providers.vendors import custom
from palinurus.providers.vendors.custom import Body, is_named
from palinurus.providers.wire.history import make_exact_ids

_ADJUSTABLE = ("mistral-small-latest", "mistral-medium-3-5", "mistral-small-2603")  # the others: always or never
_mistral_id = make_exact_ids(9)


def shape_mistral_body(body: Body, request: ModelRequest) -> Body:
    """The effort, and ids the server accepts."""
    shaped = custom.omit_fields(body, "reasoning_effort", "store", "stream_options")
    if is_named(request.model.ref.model, *_ADJUSTABLE):
        shaped["reasoning_effort"] = "high" if custom.is_thinking(request) else "none"
    if "max_completion_tokens" in shaped:
        shaped["max_tokens"] = shaped.pop("max_completion_tokens")
    shaped["messages"] = [_with_ids(message) for message in body.get("messages", [])]
    return shaped


def _with_ids(message: Body) -> Body:
    changed = dict(message)
    if isinstance(message.get("tool_calls"), list):
        changed["tool_calls"] = [{**call, "id": _mistral_id(str(call.get("id", "")))} for call in message["tool_calls"]]
    if "tool_call_id" in message:
        changed["tool_call_id"] = _mistral_id(str(message["tool_call_id"]))
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
    profile=custom.match_profile(thinking.make_profile(("off", "high"), "off"), *_ADJUSTABLE),
    shape=shape_mistral_body,
    reasons=lambda model_id: is_named(model_id, *_ADJUSTABLE) or "magistral" in model_id.lower(),
)
