"""OpenAI: the GPT models at their maker's, by key, by subscription, and inside the Codex program."""

from __future__ import annotations

import re
from typing import Any

from palinurus.core.signin.claims import read_claims
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.signin import SignInAccount, SignInRow
from palinurus.core.types.vendor import Vendor, VendorModel
from palinurus.providers import tiers
from palinurus.providers.vendors import efforts

# A leading dot takes every subdomain. The priority tier is sold at these addresses only.
HOSTS = ("api.openai.com", "chatgpt.com", ".openai.azure.com")
TIERS = ("auto", "default", "flex", "priority")


def shape_openai_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """Reasoning effort, and the service tier of fast mode."""
    shaped = efforts.add_responses_effort(body, request)
    official = tiers.is_official_host(request, HOSTS)
    return tiers.add_service_tier(shaped, request, TIERS, "priority") if official else shaped


def can_openai_reason(model_id: str) -> bool:
    """The o series and GPT-5 and later think."""
    name = efforts.strip_model_id(model_id)
    return bool(re.match(r"o\d|gpt-([5-9]|\d{2})|codex", name)) and "chat" not in name


def make_gpt_model(
    id: str, name: str, window: int = 400_000, *, reasoning: bool = True, most: int = 128_000
) -> VendorModel:
    return VendorModel(id, name, reasoning=reasoning, vision=True, context_window=window, max_tokens=most)


OPENAI = Vendor(
    id="openai",
    name="OpenAI",
    api="openai-responses",
    base_url="https://api.openai.com/v1",
    keys=("OPENAI_API_KEY",),
    models=(
        make_gpt_model("gpt-5.5", "GPT-5.5", 1_000_000),
        make_gpt_model("gpt-5.5-pro", "GPT-5.5 Pro", 1_000_000),
        make_gpt_model("gpt-5.4", "GPT-5.4", 1_050_000),
        make_gpt_model("gpt-5.4-mini", "GPT-5.4 mini"),
        make_gpt_model("gpt-5.4-nano", "GPT-5.4 nano"),
        make_gpt_model("gpt-5.3-codex", "GPT-5.3 Codex"),
        make_gpt_model("gpt-5.2", "GPT-5.2"),
        make_gpt_model("gpt-5.2-codex", "GPT-5.2 Codex"),
        make_gpt_model("gpt-5.1", "GPT-5.1"),
        make_gpt_model("gpt-5", "GPT-5"),
        make_gpt_model("gpt-5-mini", "GPT-5 mini"),
        make_gpt_model("gpt-5-nano", "GPT-5 nano"),
        make_gpt_model("o3", "o3", 200_000, most=100_000),
        make_gpt_model("o4-mini", "o4-mini", 200_000, most=100_000),
        make_gpt_model("gpt-4.1", "GPT-4.1", 1_047_576, reasoning=False, most=32_768),
        make_gpt_model("gpt-4o", "GPT-4o", 128_000, reasoning=False, most=16_384),
    ),
    profile=efforts.resolve_effort_profile,
    shape=shape_openai_body,
    apis=("openai-codex-responses",),
    reasons=can_openai_reason,
)


# --- Codex: the same models through a ChatGPT subscription ----------------------------------------------------
# The bearer token is an OAuth access token; the account id goes into the header `chatgpt-account-id`. The Codex program
# does whole runs (`agent/runtimes/codex.py`).


def build_codex_headers(request: ModelRequest) -> dict[str, str]:
    """The beta switch of the endpoint, and the session it may keep its prompt cache by."""
    fixed = {"OpenAI-Beta": "responses=experimental", "originator": "palinurus"}
    return {**fixed, "session_id": request.session} if request.session else fixed


def read_chatgpt_account(told: dict[str, Any]) -> SignInAccount:
    """The account that every call names."""
    claims = read_claims(str(told.get("access_token", ""))) | read_claims(str(told.get("id_token", "")))
    inner = claims.get("https://api.openai.com/auth")
    account = inner.get("chatgpt_account_id") if isinstance(inner, dict) else None
    return SignInAccount(headers={"chatgpt-account-id": account} if isinstance(account, str) and account else {})


# The client of the Codex program, whose id is public. Its redirect is fixed; with a code for another
# device the answer is no token but a code, which is traded like one from the browser.
CHATGPT = SignInRow(
    token_url="https://auth.openai.com/oauth/token",
    client_id="app_EMoamEEZ73f0CkXaXp7hrann",
    authorize_url="https://auth.openai.com/oauth/authorize",
    device_url="https://auth.openai.com/api/accounts/deviceauth/usercode",
    poll_url="https://auth.openai.com/api/accounts/deviceauth/token",
    poll_redirect="https://auth.openai.com/deviceauth/callback",
    verify_url="https://auth.openai.com/codex/device",
    scope="openid profile email offline_access",
    extra={"id_token_add_organizations": "true", "codex_cli_simplified_flow": "true", "originator": "palinurus"},
    host="localhost",
    port=1455,
    path="/auth/callback",
    read_account=read_chatgpt_account,
)

OPENAI_CODEX = Vendor(
    id="openai-codex",
    name="OpenAI Codex (ChatGPT sign-in)",
    api="openai-codex-responses",
    base_url="https://chatgpt.com/backend-api",
    keys=("OPENAI_CODEX_ACCESS_TOKEN",),
    models=(
        make_gpt_model("gpt-5.5", "GPT-5.5"),
        make_gpt_model("gpt-5.4", "GPT-5.4"),
        make_gpt_model("gpt-5.4-mini", "GPT-5.4 mini"),
        make_gpt_model("gpt-5.3-codex", "GPT-5.3 Codex"),
        make_gpt_model("gpt-5.3-codex-spark", "GPT-5.3 Codex Spark", 128_000),
        make_gpt_model("gpt-5.2-codex", "GPT-5.2 Codex"),
        make_gpt_model("gpt-5.1-codex-max", "GPT-5.1 Codex Max"),
        make_gpt_model("gpt-5.1-codex-mini", "GPT-5.1 Codex mini"),
    ),
    profile=efforts.resolve_effort_profile,
    shape=shape_openai_body,
    apis=("openai-responses",),
    headers=build_codex_headers,
    reasons=can_openai_reason,
    signin=CHATGPT,
)

CODEX_PROGRAM = Vendor(
    id="codex",
    name="Codex (program)",
    api="runtime",
    base_url="",
    keyless=True,
    profile=efforts.resolve_effort_profile,
    reasons=can_openai_reason,
)
