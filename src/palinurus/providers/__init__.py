"""Models of every provider behind one port. The tables here name what exists; nothing is loaded before it is used.

This file knows names only: which wire speaks which API, which file holds which vendor's facts.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

# Tokens asked of an Ollama: its own default is 4k and cuts silently, and the memory for the whole window is taken when
# the model is loaded.
MOST_CONTEXT = 32_768

# API -> its `ModelWire` (`providers/wire/__init__.py`).
WIRES: dict[str, str] = {
    "openai-completions": "palinurus.providers.wire.completions:WIRE",
    "anthropic-messages": "palinurus.providers.wire.anthropic:WIRE",
    "openai-responses": "palinurus.providers.wire.responses:WIRE",
    "openai-codex-responses": "palinurus.providers.wire.responses:CODEX",
    "google-generative-ai": "palinurus.providers.wire.gemini:WIRE",
    "ollama": "palinurus.providers.wire.ollama:WIRE",
    "bedrock-converse-stream": "palinurus.providers.wire.bedrock:WIRE",
}

# API -> a `Model` that needs no wire; called without arguments.
NATIVE_MODELS: dict[str, str] = {
    "builtin": "palinurus.providers.demo:make_demo_model",
    "local": "palinurus.providers.local.model:make_local_model",
}

# The API of programs that do whole runs (codex, claude-cli): there is no single call to one.
PROGRAM_API = "runtime"

# What reads an answer besides its wire's decoder. Loaded for models that need it.
EVENT_READERS: dict[str, str] = {
    "text": "palinurus.core.calls.events:TextCallDecoder",
    "json": "palinurus.core.calls.actions:ActionDecoder",
    "shape": "palinurus.core.calls.actions:shape_actions",
}

# Provider id -> its `Vendor`. Order matters once: the first whose key is in the environment is the default.
VENDORS: dict[str, str] = {
    "anthropic": "palinurus.providers.vendors.anthropic:VENDOR",
    "openai": "palinurus.providers.vendors.openai:OPENAI",
    "openai-codex": "palinurus.providers.vendors.openai:OPENAI_CODEX",
    "google": "palinurus.providers.vendors.google:VENDOR",
    "openrouter": "palinurus.providers.vendors.openrouter:VENDOR",
    "xai": "palinurus.providers.vendors.xai:VENDOR",
    "mistral": "palinurus.providers.vendors.mistral:VENDOR",
    "groq": "palinurus.providers.vendors.groq:VENDOR",
    "deepseek": "palinurus.providers.vendors.deepseek:VENDOR",
    "zai": "palinurus.providers.vendors.zai:VENDOR",
    "moonshot": "palinurus.providers.vendors.moonshot:VENDOR",
    "minimax": "palinurus.providers.vendors.minimax:VENDOR",
    "xiaomi": "palinurus.providers.vendors.xiaomi:VENDOR",
    "together": "palinurus.providers.vendors.together:VENDOR",
    "fireworks": "palinurus.providers.vendors.fireworks:VENDOR",
    "cerebras": "palinurus.providers.vendors.cerebras:VENDOR",
    "amazon-bedrock": "palinurus.providers.vendors.amazon_bedrock:VENDOR",
    "vercel-ai-gateway": "palinurus.providers.vendors.vercel_ai_gateway:VENDOR",
    "github-copilot": "palinurus.providers.vendors.github_copilot:VENDOR",
    "litellm": "palinurus.providers.vendors.servers:LITELLM",
    "vllm": "palinurus.providers.vendors.servers:VLLM",
    "lmstudio": "palinurus.providers.vendors.servers:LMSTUDIO",
    "sglang": "palinurus.providers.vendors.servers:SGLANG",
    "ollama": "palinurus.providers.vendors.ollama:VENDOR",
    "codex": "palinurus.providers.vendors.openai:CODEX_PROGRAM",
    "claude-cli": "palinurus.providers.vendors.anthropic:CLAUDE_PROGRAM",
    "local": "palinurus.providers.vendors.local:VENDOR",
    "builtin": "palinurus.providers.vendors.local:BUILTIN",
}

# The rules for providers that exist in the config only.
FALLBACK_VENDORS: dict[str, str] = {
    "custom": "palinurus.providers.vendors.custom:VENDOR",
}


def load_row(table: dict[str, str], name: str) -> Any:
    """The object behind a row, or None when the table has no such row or its module is not there."""
    target = table.get(name)
    if target is None:
        return None
    try:
        return _load(target)
    except ModuleNotFoundError as error:
        if error.name is not None and target.startswith(error.name):
            return None
        raise


@cache
def _load(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)
