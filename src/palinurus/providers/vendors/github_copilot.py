"""GitHub Copilot. GPT, Claude and Gemini models of a subscription, behind three APIs."""

from __future__ import annotations

from typing import Any

from palinurus.core.types.messages import ImageBlock, UserMessage
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.signin import SignInAccount, SignInRow
from palinurus.core.types.vendor import Vendor, VendorModel
from palinurus.providers.vendors import claude, custom, efforts
from palinurus.providers.vendors.custom import Body

EDITOR = "vscode/1.107.0"
# The key is a short-lived Copilot token that the sign-in exchanges for the GitHub token.


def shape_copilot_body(body: Body, request: ModelRequest) -> Body:
    """The common rules; the Responses endpoint refuses effort none."""
    if request.model.api == "openai-completions":
        return custom.shape_custom_body(body, request)
    return efforts.add_responses_effort(body, request, none=False)


def build_copilot_headers(request: ModelRequest) -> dict[str, str]:
    """Who asks (an agent after the first turn is not billed as a user), and whether there are pictures."""
    last = request.messages[-1] if request.messages else None
    found = {
        "Editor-Version": EDITOR,
        "Copilot-Integration-Id": "vscode-chat",
        "Openai-Intent": "conversation-edits",
        "X-Initiator": "user" if isinstance(last, UserMessage) else "agent",
    }
    shown = (m.blocks if isinstance(m, UserMessage) else m.content for m in request.messages)
    if any(isinstance(block, ImageBlock) for blocks in shown for block in blocks):
        found["Copilot-Vision-Request"] = "true"
    return {**found, **custom.build_custom_headers(request)}


def can_copilot_reason(model_id: str) -> bool:
    return claude.can_claude_reason(model_id) or model_id.startswith(("gpt-5", "o3", "o4", "gemini-2.5", "gemini-3"))


def read_copilot_account(told: dict[str, Any]) -> SignInAccount:
    """Companies have addresses of their own, which come with each short-lived token."""
    ends = told.get("endpoints")
    base = ends.get("api") if isinstance(ends, dict) else None
    plan = told.get("sku")
    return SignInAccount(
        plan if isinstance(plan, str) else "",
        base_url=base.rstrip("/") if isinstance(base, str) and base.startswith("https://") else "",
    )


COPILOT = SignInRow(
    token_url="https://github.com/login/oauth/access_token",
    client_id="Iv1.b507a08c87ecfe98",  # the editor's, which Copilot gives tokens to
    device_url="https://github.com/login/device/code",
    exchange_url="https://api.github.com/copilot_internal/v2/token",
    scope="read:user",
    headers={"Editor-Version": EDITOR, "Copilot-Integration-Id": "vscode-chat"},
    read_account=read_copilot_account,
)


VENDOR = Vendor(
    id="github-copilot",
    name="GitHub Copilot",
    api="openai-completions",
    base_url="https://api.individual.githubcopilot.com",
    keys=("COPILOT_GITHUB_TOKEN",),
    models=(
        VendorModel("claude-sonnet-4.6", "Claude Sonnet 4.6", True, True, context_window=200_000, max_tokens=32_000),
        VendorModel("gpt-5.4", "GPT-5.4", True, True, context_window=400_000, max_tokens=128_000),
        VendorModel("gemini-3-pro-preview", "Gemini 3 Pro", True, True, context_window=128_000, max_tokens=64_000),
        VendorModel("gpt-4.1", "GPT-4.1", False, True, context_window=128_000, max_tokens=16_384),
    ),
    shape=shape_copilot_body,
    apis=("openai-responses", "openai-codex-responses"),
    headers=build_copilot_headers,
    reasons=can_copilot_reason,
    signin=COPILOT,
)
