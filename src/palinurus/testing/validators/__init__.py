"""What each provider refuses with a 400: one function per API that reads a request body and names every fault.

Pure, and deliberately without a line of the codecs it judges. The rules are those of the providers' documentation and
of the error messages people meet. Bodies are what goes over the wire: JSON, read back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from palinurus.testing.validators import messages, turns

API_CHECKS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "anthropic-messages": turns.check_anthropic,
    "openai-completions": messages.check_completions,
    "openai-responses": messages.check_responses,
    "openai-codex-responses": messages.check_codex,
    "google-generative-ai": turns.check_gemini,
    "ollama": messages.check_ollama,
    "bedrock-converse-stream": turns.check_bedrock,
}

# Providers with rules of their own beside those of the API they speak.
VENDOR_CHECKS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "mistral": messages.check_mistral,
    "deepseek": messages.check_deepseek,
    "moonshot": messages.check_moonshot,
}


def check_request(api: str, body: dict[str, Any], vendor: str = "") -> list[str]:
    """Every reason this provider would have to refuse the body, one sentence each; [] when it is accepted."""
    found = API_CHECKS[api](body)
    return [*found, *VENDOR_CHECKS[vendor](body)] if vendor in VENDOR_CHECKS else found
