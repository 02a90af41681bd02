"""What each provider refuses with a 400: one function per API that reads a request body and names every fault.

Pure, and deliberately without a line of the codecs it judges. The rules are those of the providers' documentation and
of the error messages people meet. Bodies are what goes over the wire: JSON, read back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from palinurus.testing.validators import anthropic, bedrock, completions, gemini, ollama, responses

RULES: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "anthropic-messages": anthropic.faults,
    "openai-completions": completions.faults,
    "openai-responses": responses.faults,
    "openai-codex-responses": responses.codex,
    "google-generative-ai": gemini.faults,
    "ollama": ollama.faults,
    "bedrock-converse-stream": bedrock.faults,
}

# Providers with rules of their own beside those of the API they speak.
VENDORS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "mistral": completions.mistral,
    "deepseek": completions.deepseek,
    "moonshot": completions.moonshot,
}


def faults(api: str, body: dict[str, Any], vendor: str = "") -> list[str]:
    """Every reason this provider would have to refuse the body, one sentence each; [] when it is accepted."""
    found = RULES[api](body)
    return [*found, *VENDORS[vendor](body)] if vendor in VENDORS else found
