"""Models of every provider behind one port. The tables here name what exists; nothing is loaded before it is used.

This file knows names only: which wire speaks which API, which file holds which vendor's facts.
"""

from __future__ import annotations

import importlib
from typing import Any

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
    "calls": "palinurus.core.calls.events:TextCallDecoder",
}

# Provider id -> its `Vendor`. Order matters once: the first whose key is in the environment is the default.
VENDORS: dict[str, str] = {
    "anthropic": "palinurus.providers.vendors.anthropic:VENDOR",
    "openai": "palinurus.providers.vendors.openai:OPENAI",
    "openai-codex": "palinurus.providers.vendors.openai:OPENAI_CODEX",
    "google": "palinurus.providers.vendors.google:VENDOR",
    "openrouter": "palinurus.providers.vendors.gateways:OPENROUTER",
    "xai": "palinurus.providers.vendors.xai:VENDOR",
    "mistral": "palinurus.providers.vendors.makers:MISTRAL",
    "groq": "palinurus.providers.vendors.hosts:GROQ",
    "deepseek": "palinurus.providers.vendors.makers:DEEPSEEK",
    "zai": "palinurus.providers.vendors.makers:ZAI",
    "moonshot": "palinurus.providers.vendors.makers:MOONSHOT",
    "minimax": "palinurus.providers.vendors.makers:MINIMAX",
    "xiaomi": "palinurus.providers.vendors.makers:XIAOMI",
    "together": "palinurus.providers.vendors.hosts:TOGETHER",
    "fireworks": "palinurus.providers.vendors.hosts:FIREWORKS",
    "cerebras": "palinurus.providers.vendors.hosts:CEREBRAS",
    "amazon-bedrock": "palinurus.providers.vendors.amazon_bedrock:VENDOR",
    "vercel-ai-gateway": "palinurus.providers.vendors.gateways:VERCEL_AI_GATEWAY",
    "github-copilot": "palinurus.providers.vendors.gateways:GITHUB_COPILOT",
    "litellm": "palinurus.providers.vendors.hosts:LITELLM",
    "vllm": "palinurus.providers.vendors.hosts:VLLM",
    "lmstudio": "palinurus.providers.vendors.hosts:LMSTUDIO",
    "sglang": "palinurus.providers.vendors.hosts:SGLANG",
    "ollama": "palinurus.providers.vendors.hosts:OLLAMA",
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
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is not None and module.startswith(error.name):
            return None
        raise
