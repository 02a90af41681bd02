"""Fireworks AI: open models, the common rules."""

from __future__ import annotations

from palinurus.core.types.vendor import Known, Vendor
from palinurus.providers.vendors import custom

VENDOR = Vendor(
    id="fireworks",
    name="Fireworks AI",
    api="openai-completions",
    base_url="https://api.fireworks.ai/inference/v1",
    keys=("FIREWORKS_API_KEY",),
    models=(
        Known(
            "accounts/fireworks/models/kimi-k2p6", "Kimi K2.6", True, True, context_window=262_144, max_tokens=32_768
        ),
        Known("accounts/fireworks/models/glm-5", "GLM-5", True, context_window=202_752, max_tokens=32_768),
        Known(
            "accounts/fireworks/models/gpt-oss-120b", "GPT-OSS 120B", True, context_window=131_072, max_tokens=32_768
        ),
    ),
    profile=custom.profile,
    shape=custom.shape,
    headers=custom.headers,
    reasons=lambda model_id: any(
        word in model_id.lower() for word in ("gpt-oss", "kimi-k2p", "glm-", "deepseek-v", "-r1")
    ),
)
