"""Makers of open models that serve them at an address of their own: DeepSeek, Xiaomi, Z.AI, Moonshot, Mistral, MiniMax.

The last speaks Messages, the others Chat Completions; how thinking is switched differs from one to the next.
"""

from __future__ import annotations

from typing import Any

from palinurus.core.levels import spellings, thinking
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.vendor import Vendor, VendorModel
from palinurus.providers.vendors import claude, custom
from palinurus.providers.vendors.custom import Body, is_named
from palinurus.providers.wire.history import make_exact_ids

_NO_ADAPTIVE = thinking.make_profile((*thinking.BASE_LEVELS, "xhigh", "max"), "high")


# --- DeepSeek: a `thinking` switch and two efforts ------------------------------------------------------------


def shape_deepseek_body(body: Body, request: ModelRequest) -> Body:
    """V4: the switch, the effort high or max, and reasoning_content in the history as the server demands."""
    dropped = custom.omit_fields(body, "reasoning", "reasoning_effort")
    if not is_named(request.model.ref.model, "deepseek-v4"):
        return dropped  # the older ones choose thinking by model id and take no effort
    messages = body.get("messages", [])
    if not custom.is_thinking(request):
        dropped["messages"] = [custom.omit_fields(message, "reasoning_content") for message in messages]
        return {**dropped, "thinking": {"type": "disabled"}}
    dropped["messages"] = [_with_reasoning(message) for message in messages]
    effort = "max" if request.level in ("xhigh", "max") else "high"
    return {**dropped, "thinking": {"type": "enabled"}, "reasoning_effort": effort}


def _with_reasoning(message: Body) -> Body:
    # Thinking turns are refused when an earlier answer lacks the field, even an empty one.
    if message.get("role") != "assistant" or "reasoning_content" in message:
        return message
    return {**message, "reasoning_content": ""}


DEEPSEEK = Vendor(
    id="deepseek",
    name="DeepSeek",
    api="openai-completions",
    base_url="https://api.deepseek.com",
    keys=("DEEPSEEK_API_KEY",),
    models=(
        VendorModel("deepseek-v4-pro", "DeepSeek V4 Pro", True, context_window=1_000_000, max_tokens=64_000),
        VendorModel("deepseek-v4-flash", "DeepSeek V4 Flash", True, context_window=1_000_000, max_tokens=64_000),
        VendorModel("deepseek-chat", "DeepSeek Chat", False, context_window=128_000, max_tokens=8192),
        VendorModel("deepseek-reasoner", "DeepSeek Reasoner", True, context_window=128_000, max_tokens=64_000),
    ),
    profile=custom.match_profile(_NO_ADAPTIVE, "deepseek-v4"),
    shape=shape_deepseek_body,
    reasons=lambda model_id: is_named(model_id, "deepseek-v4") or "reasoner" in model_id,
)


# --- Xiaomi: the MiMo models, with the same switch and no degrees ---------------------------------------------


def shape_xiaomi_body(body: Body, request: ModelRequest) -> Body:
    """On or off: the address takes no degrees."""
    return custom.add_thinking_type(body, request) if thinking.can_think(request.model, request.level) else body


XIAOMI = Vendor(
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


# --- Z.AI: the GLM models. On or off, except GLM-5.2, which has two efforts -----------------------------------

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


ZAI = Vendor(
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


# --- Moonshot: the Kimi models. On or off; kimi-k2.7-code always thinks ---------------------------------------

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


MOONSHOT = Vendor(
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


# --- Mistral: an effort of none or high on some models, and tool call ids of nine letters ---------------------

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


MISTRAL = Vendor(
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


# --- MiniMax: M2 is quiet unless asked, M3 decides itself -----------------------------------------------------

_M3 = thinking.make_profile(("off", "adaptive"), "adaptive")
_M2 = thinking.make_profile(thinking.BASE_LEVELS, "off")
_MINIMAX_FAST: dict[str, str] = {"MiniMax-M2.7": "MiniMax-M2.7-highspeed"}


def shape_minimax_body(body: Body, request: ModelRequest) -> Body:
    """The `thinking` field, and fast mode as another model id."""
    model = request.model
    given = model.params.get("thinking")
    if isinstance(given, dict) or "thinking" in body:
        shaped = {**body, "thinking": given if isinstance(given, dict) else body["thinking"]}
    elif is_named(model.ref.model, "minimax-m3"):
        shaped = {**body, "thinking": {"type": "adaptive" if custom.is_thinking(request) else "disabled"}}
    else:
        shaped = {"thinking": {"type": "disabled"}, **claude.shape_claude_body(body, request)}
    fast = request.fast if request.fast is not None else spellings.parse_fast(model.params.get("fastMode")) == "on"
    if fast and shaped.get("model") in _MINIMAX_FAST:
        shaped["model"] = _MINIMAX_FAST[shaped["model"]]
    return shaped


def _minimax(id: str, *, vision: bool = False) -> VendorModel:
    name = id.replace("-", " ")
    return VendorModel(id, name, reasoning=True, vision=vision, context_window=204_800, max_tokens=131_072)


MINIMAX = Vendor(
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
