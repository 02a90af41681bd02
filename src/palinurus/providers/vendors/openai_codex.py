"""OpenAI Codex: the GPT models through a ChatGPT subscription.

The bearer token is an OAuth access token; the account id goes into the header `chatgpt-account-id`, which the
sign-in writes to the model's headers.
"""

from __future__ import annotations

from palinurus.core.types.model import ModelRequest
from palinurus.core.types.vendor import Vendor
from palinurus.providers.vendors import efforts, openai

# The Codex program as a provider: it does whole runs (`agent/runtimes/codex.py`), with its own sign-in.

CODEX_PROGRAM = Vendor(
    id="codex",
    name="Codex (program)",
    api="runtime",
    base_url="",
    keyless=True,
    profile=efforts.resolve_effort_profile,
    reasons=openai.can_openai_reason,
)


def build_codex_headers(request: ModelRequest) -> dict[str, str]:
    """The beta switch of the endpoint, and the session it may keep its prompt cache by."""
    fixed = {"OpenAI-Beta": "responses=experimental", "originator": "palinurus"}
    return {**fixed, "session_id": request.session} if request.session else fixed


OPENAI_CODEX = Vendor(
    id="openai-codex",
    name="OpenAI Codex (ChatGPT sign-in)",
    api="openai-codex-responses",
    base_url="https://chatgpt.com/backend-api",
    keys=("OPENAI_CODEX_ACCESS_TOKEN",),
    models=(
        openai.make_gpt_model("gpt-5.5", "GPT-5.5"),
        openai.make_gpt_model("gpt-5.4", "GPT-5.4"),
        openai.make_gpt_model("gpt-5.4-mini", "GPT-5.4 mini"),
        openai.make_gpt_model("gpt-5.3-codex", "GPT-5.3 Codex"),
        openai.make_gpt_model("gpt-5.3-codex-spark", "GPT-5.3 Codex Spark", 128_000),
        openai.make_gpt_model("gpt-5.2-codex", "GPT-5.2 Codex"),
        openai.make_gpt_model("gpt-5.1-codex-max", "GPT-5.1 Codex Max"),
        openai.make_gpt_model("gpt-5.1-codex-mini", "GPT-5.1 Codex mini"),
    ),
    profile=efforts.resolve_effort_profile,
    shape=openai.shape_openai_body,
    apis=("openai-responses",),
    headers=build_codex_headers,
    reasons=openai.can_openai_reason,
)
