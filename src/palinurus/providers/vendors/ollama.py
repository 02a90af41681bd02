"""Ollama. Models on this machine or the next, through its native chat API."""

from __future__ import annotations

import re
from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.vendor import Vendor
from palinurus.patterns import compile_late
from palinurus.providers import MOST_CONTEXT
from palinurus.providers.vendors.custom import Body

_OLLAMA_LEVELS = thinking.make_profile(("off", "low", "medium", "high", "max"), "off")
_THINK: dict[str, str] = {"minimal": "low", "low": "low", "medium": "medium"}
_THINK |= dict.fromkeys(("high", "xhigh", "adaptive", "max"), "high")  # its largest native effort
_OLLAMA_THINKS = compile_late(
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


VENDOR = Vendor(
    id="ollama",
    name="Ollama",
    api="ollama",
    base_url="http://127.0.0.1:11434",
    keys=("OLLAMA_API_KEY",),
    profile=lambda model: _OLLAMA_LEVELS,
    shape=shape_ollama_body,
    keyless=True,
    window=MOST_CONTEXT,
    reasons=can_ollama_reason,
)
