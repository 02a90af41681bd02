"""OpenAI Codex: the GPT models through a ChatGPT subscription.

The bearer token is an OAuth access token; the account id goes into the header `chatgpt-account-id`, which the
sign-in writes to the model's headers.
"""

from __future__ import annotations

from palinurus.core.types.model import ModelRequest
from palinurus.core.types.vendor import Vendor
from palinurus.providers.vendors import efforts, openai


def headers(request: ModelRequest) -> dict[str, str]:
    """The beta switch of the endpoint, and the session it may keep its prompt cache by."""
    fixed = {"OpenAI-Beta": "responses=experimental", "originator": "palinurus"}
    return {**fixed, "session_id": request.session} if request.session else fixed


VENDOR = Vendor(
    id="openai-codex",
    name="OpenAI Codex (ChatGPT sign-in)",
    api="openai-codex-responses",
    base_url="https://chatgpt.com/backend-api",
    keys=("OPENAI_CODEX_ACCESS_TOKEN",),
    models=(
        openai.known("gpt-5.5", "GPT-5.5"),
        openai.known("gpt-5.4", "GPT-5.4"),
        openai.known("gpt-5.4-mini", "GPT-5.4 mini"),
        openai.known("gpt-5.3-codex", "GPT-5.3 Codex"),
        openai.known("gpt-5.3-codex-spark", "GPT-5.3 Codex Spark", 128_000),
        openai.known("gpt-5.2-codex", "GPT-5.2 Codex"),
        openai.known("gpt-5.1-codex-max", "GPT-5.1 Codex Max"),
        openai.known("gpt-5.1-codex-mini", "GPT-5.1 Codex mini"),
    ),
    profile=efforts.profile,
    shape=openai.shape,
    headers=headers,
    reasons=openai.reasons,
)
