"""Ollama: models on this machine or the next, through its native chat API."""

from __future__ import annotations

import re
from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor

_LEVELS = thinking.make_profile(("off", "low", "medium", "high", "max"), "off")
_THINK: dict[str, str] = {"minimal": "low", "low": "low", "medium": "medium"}
_THINK |= dict.fromkeys(("high", "xhigh", "adaptive", "max"), "high")  # its largest native effort
_FAMILIES = re.compile(r"(gpt-oss|deepseek-(r1|v3\.\d|v4)|qwen3|qwq|magistral|gemma4|glm-|kimi|minimax|nemotron)", re.I)


def resolve_ollama_profile(model: ModelSpec) -> ThinkingProfile:
    """Four levels and off for a model that thinks."""
    return _LEVELS


def shape_ollama_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
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
    return bool(_FAMILIES.match(model_id.rpartition("/")[2])) and "coder" not in model_id


VENDOR = Vendor(
    id="ollama",
    name="Ollama",
    api="ollama",
    base_url="http://127.0.0.1:11434",
    keys=("OLLAMA_API_KEY",),
    profile=resolve_ollama_profile,
    shape=shape_ollama_body,
    keyless=True,
    reasons=can_ollama_reason,
)
