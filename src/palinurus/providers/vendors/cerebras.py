"""Cerebras: open models at very high speed, the common rules."""

from __future__ import annotations

from palinurus.core.types.vendor import Known, Vendor
from palinurus.providers.vendors import custom

VENDOR = Vendor(
    id="cerebras",
    name="Cerebras",
    api="openai-completions",
    base_url="https://api.cerebras.ai/v1",
    keys=("CEREBRAS_API_KEY",),
    models=(
        Known("gpt-oss-120b", "GPT-OSS 120B", True, context_window=131_072, max_tokens=32_768),
        Known("zai-glm-4.7", "GLM-4.7", True, context_window=131_072, max_tokens=32_768),
    ),
    profile=custom.profile,
    shape=custom.shape,
    headers=custom.headers,
    reasons=lambda model_id: any(word in model_id.lower() for word in ("gpt-oss", "glm-", "qwen-3")),
)
