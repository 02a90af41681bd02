"""Who serves open models of other makers over Chat Completions: Together, Cerebras, Groq and Fireworks, and the servers
people run themselves: vLLM, SGLang, LM Studio, LiteLLM, and Ollama with an API of its own.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor, VendorModel
from palinurus.providers.vendors import custom, efforts
from palinurus.providers.vendors.custom import Body

# --- servers of one's own -------------------------------------------------------------------------------------


def _server(id: str, name: str, base_url: str, keys: tuple[str, ...], *, keyless: bool = True) -> Vendor:
    """Without quirks: thinking as the config describes it."""
    profile = custom.resolve_custom_profile
    return Vendor(id, name, "openai-completions", base_url, keys=keys, profile=profile, keyless=keyless)


SGLANG = _server("sglang", "SGLang", "http://127.0.0.1:30000/v1", ("SGLANG_API_KEY",))
LMSTUDIO = _server("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", ("LMSTUDIO_API_KEY", "LM_API_TOKEN"))
LITELLM = _server("litellm", "LiteLLM", "http://127.0.0.1:4000", ("LITELLM_API_KEY",), keyless=False)  # a proxy


def _nemotron(model: ModelSpec) -> bool:
    return "nemotron-3" in model.ref.model.lower() and "thinkingFormat" not in model.compat


def resolve_vllm_profile(model: ModelSpec) -> ThinkingProfile:
    """On and off for Qwen formats and Nemotron 3."""
    return custom.BINARY if _nemotron(model) else custom.resolve_custom_profile(model)


def shape_vllm_body(body: Body, request: ModelRequest) -> Body:
    """The chat template's switch, or the common rules."""
    if _nemotron(request.model) and thinking.can_think(request.model, request.level):
        return custom.add_template_flag(body, request)
    return custom.shape_custom_body(body, request)


VLLM = msgspec.structs.replace(
    _server("vllm", "vLLM", "http://127.0.0.1:8000/v1", ("VLLM_API_KEY",)),
    profile=resolve_vllm_profile,
    shape=shape_vllm_body,
    reasons=lambda model_id: "nemotron-3" in model_id.lower(),
)


# --- Ollama: models on this machine or the next, through its native chat API ----------------------------------

_OLLAMA_LEVELS = thinking.make_profile(("off", "low", "medium", "high", "max"), "off")
_THINK: dict[str, str] = {"minimal": "low", "low": "low", "medium": "medium"}
_THINK |= dict.fromkeys(("high", "xhigh", "adaptive", "max"), "high")  # its largest native effort
_OLLAMA_THINKS = re.compile(
    r"(gpt-oss|deepseek-(r1|v3\.\d|v4)|qwen3|qwq|magistral|gemma4|glm-|kimi|minimax|nemotron)", re.I
)


def shape_ollama_body(body: Body, request: ModelRequest) -> Body:
    """`think`: params.think or params.thinking if set, else the level. A model that cannot think is only told no."""
    model = request.model
    think: Any = next((v for k in ("think", "thinking") if (v := model.params.get(k)) is not None), None)
    if not isinstance(think, (str, bool)):
        think = _THINK.get(request.level, False)
    if not thinking.can_think(model, request.level) and think is not False:
        return body
    return {**body, "think": think}


def can_ollama_reason(model_id: str) -> bool:
    """By family name; `coder` builds of them do not think."""
    return bool(_OLLAMA_THINKS.match(model_id.rpartition("/")[2])) and "coder" not in model_id


OLLAMA = Vendor(
    id="ollama",
    name="Ollama",
    api="ollama",
    base_url="http://127.0.0.1:11434",
    keys=("OLLAMA_API_KEY",),
    profile=lambda model: _OLLAMA_LEVELS,
    shape=shape_ollama_body,
    keyless=True,
    reasons=can_ollama_reason,
)


# --- Together AI: a switch `reasoning.enabled`, efforts for GPT-OSS, and some that always think ---------------

_ALWAYS = re.compile(r"minimax-m2|deepseek-r1|kimi-k2-thinking")


def _plain(model: ModelSpec) -> bool:
    """Does the config describe efforts or a format of its own, or is it GPT-OSS?"""
    described = "thinkingFormat" in model.compat or bool(thinking.read_efforts(model))
    return described or "gpt-oss" in model.ref.model.lower()


def _always(model: ModelSpec) -> bool:
    return bool(_ALWAYS.search(model.ref.model.lower()))


def resolve_together_profile(model: ModelSpec) -> ThinkingProfile:
    """On and off, or on alone; the base levels for GPT-OSS and whatever the config describes."""
    if _plain(model):
        return custom.resolve_custom_profile(model)
    return custom.ALWAYS if _always(model) else custom.BINARY


def shape_together_body(body: Body, request: ModelRequest) -> Body:
    """The switch, nothing where there is none, or the common rules."""
    model = request.model
    if _plain(model):
        return custom.shape_custom_body(body, request)
    if _always(model) or not thinking.can_think(model, request.level):
        return body
    return custom.add_reasoning_flag(body, request)


TOGETHER = Vendor(
    id="together",
    name="Together AI",
    api="openai-completions",
    base_url="https://api.together.xyz/v1",
    keys=("TOGETHER_API_KEY",),
    models=(
        VendorModel("openai/gpt-oss-120b", "GPT-OSS 120B", True, context_window=131_072, max_tokens=32_768),
        VendorModel("moonshotai/Kimi-K2.6", "Kimi K2.6", True, True, context_window=262_144, max_tokens=32_768),
        VendorModel("zai-org/GLM-5", "GLM-5", True, context_window=202_752, max_tokens=32_768),
        VendorModel("deepseek-ai/DeepSeek-V4-Pro", "DeepSeek V4 Pro", True, context_window=512_000, max_tokens=32_768),
        VendorModel("MiniMaxAI/MiniMax-M2.7", "MiniMax M2.7", True, context_window=202_752, max_tokens=32_768),
    ),
    profile=resolve_together_profile,
    shape=shape_together_body,
    reasons=lambda model_id: bool(
        re.search(r"gpt-oss|kimi-k2[.-](\d|thinking)|glm-|deepseek-(v3\.1|v4|r1)|minimax-m|qwen3\.", model_id.lower())
    ),
)


# --- Cerebras: very high speed. GPT-OSS always thinks, the others can be told not to --------------------------


def _glm(model: ModelSpec) -> bool:
    return "glm-" in model.ref.model.lower() and not thinking.read_efforts(model)


def resolve_cerebras_profile(model: ModelSpec) -> ThinkingProfile:
    """On and off for GLM, the base levels for the rest."""
    return custom.BINARY if _glm(model) else custom.resolve_custom_profile(model)


def shape_cerebras_body(body: Body, request: ModelRequest) -> Body:
    """`reasoning_effort`; GLM thinks unless told "none", and has no degrees."""
    model = request.model
    if "thinkingFormat" in model.compat or thinking.read_efforts(model):
        return custom.shape_custom_body(body, request)
    if not thinking.can_think(model, request.level) or (_glm(model) and custom.is_thinking(request)):
        return body
    switched = _glm(model) or "qwen" in model.ref.model.lower()
    return efforts.add_effort(body, request, (*(("none",) if switched else ()), "low", "medium", "high"))


CEREBRAS = Vendor(
    id="cerebras",
    name="Cerebras",
    api="openai-completions",
    base_url="https://api.cerebras.ai/v1",
    keys=("CEREBRAS_API_KEY",),
    models=(
        VendorModel("gpt-oss-120b", "GPT-OSS 120B", True, context_window=131_072, max_tokens=32_768),
        VendorModel("zai-glm-4.7", "GLM-4.7", True, context_window=131_072, max_tokens=32_768),
    ),
    profile=resolve_cerebras_profile,
    shape=shape_cerebras_body,
    reasons=lambda model_id: any(word in model_id.lower() for word in ("gpt-oss", "glm-", "qwen-3")),
)


# --- Groq: high speed. GPT-OSS takes efforts, Qwen only none or default ---------------------------------------


def resolve_groq_profile(model: ModelSpec) -> ThinkingProfile:
    """On and off for Qwen, the base levels for the rest."""
    return custom.BINARY if "qwen" in model.ref.model.lower() else thinking.make_base_profile(model)


def shape_groq_body(body: Body, request: ModelRequest) -> Body:
    """`reasoning_effort` in the words each family takes."""
    if "qwen" not in request.model.ref.model.lower() or not thinking.can_think(request.model, request.level):
        return custom.shape_custom_body(body, request)
    if not custom.is_thinking(request):
        return {**body, "reasoning_effort": "none"}
    # Without the format thoughts come as tags inside the text unless tools are offered.
    return {**body, "reasoning_effort": "default", "reasoning_format": "parsed"}


GROQ = Vendor(
    id="groq",
    name="Groq",
    api="openai-completions",
    base_url="https://api.groq.com/openai/v1",
    keys=("GROQ_API_KEY",),
    models=(
        VendorModel("openai/gpt-oss-120b", "GPT-OSS 120B", True, context_window=131_072, max_tokens=65_536),
        VendorModel("openai/gpt-oss-20b", "GPT-OSS 20B", True, context_window=131_072, max_tokens=65_536),
        VendorModel("qwen/qwen3-32b", "Qwen3 32B", True, context_window=131_072, max_tokens=40_960),
        VendorModel("llama-3.3-70b-versatile", "Llama 3.3 70B", False, context_window=131_072, max_tokens=32_768),
    ),
    profile=resolve_groq_profile,
    shape=shape_groq_body,
    reasons=lambda model_id: "gpt-oss" in model_id or "qwen3" in model_id,
)


# --- Fireworks AI: which efforts a model takes depends on its family ------------------------------------------

# First match wins; families that are not here take the common three.
_EFFORTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"deepseek-v4.*", ("none", "low", "medium", "high", "xhigh")),
    (r"glm-5p[3-9].*", ("none", "low", "high", "max")),
    (r"glm-.*", ("none", "high", "max")),
)


def list_fireworks_efforts(model: ModelSpec) -> tuple[str, ...]:
    """The efforts of a model: what the config lists, else its family's."""
    name = efforts.strip_model_id(model.ref.model)
    family = next((words for pattern, words in _EFFORTS if re.fullmatch(pattern, name)), ("low", "medium", "high"))
    return thinking.read_efforts(model) or family


def resolve_fireworks_profile(model: ModelSpec) -> ThinkingProfile:
    """The base levels, and what the family has above them."""
    if "thinkingFormat" in model.compat or model.api != "openai-completions":
        return custom.resolve_custom_profile(model)
    return efforts.extend_profile(list_fireworks_efforts(model))


def shape_fireworks_body(body: Body, request: ModelRequest) -> Body:
    """`reasoning_effort` in the words of the family; "none" only where it is one."""
    model = request.model
    if "thinkingFormat" in model.compat:
        return custom.shape_custom_body(body, request)
    if not thinking.can_think(model, request.level) or model.compat.get("supportsReasoningEffort") is False:
        return body
    return efforts.add_effort(body, request, list_fireworks_efforts(model))


FIREWORKS = Vendor(
    id="fireworks",
    name="Fireworks AI",
    api="openai-completions",
    base_url="https://api.fireworks.ai/inference/v1",
    keys=("FIREWORKS_API_KEY",),
    models=tuple(
        VendorModel(f"accounts/fireworks/models/{id}", name, True, vision, context_window=window, max_tokens=32_768)
        for id, name, vision, window in (
            ("kimi-k2p6", "Kimi K2.6", True, 262_144),
            ("glm-5", "GLM-5", False, 202_752),
            ("gpt-oss-120b", "GPT-OSS 120B", False, 131_072),
        )
    ),
    profile=resolve_fireworks_profile,
    shape=shape_fireworks_body,
    reasons=lambda model_id: any(
        word in model_id.lower() for word in ("gpt-oss", "kimi-k2p", "glm-", "deepseek-v", "-r1")
    ),
)
