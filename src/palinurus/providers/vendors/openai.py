"""OpenAI: the GPT models at their maker's."""

from __future__ import annotations

import re
from typing import Any

from palinurus.core.types.model import ModelRequest
from palinurus.core.types.vendor import Vendor, VendorModel
from palinurus.providers.vendors import custom, efforts, tiers

# A leading dot takes every subdomain. The priority tier is sold at these addresses only.
HOSTS = ("api.openai.com", "chatgpt.com", ".openai.azure.com")
TIERS = ("auto", "default", "flex", "priority")
_RESPONSES = ("openai-responses", "openai-codex-responses")


def shape(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """Reasoning effort, and the service tier of fast mode."""
    shaped = custom.shape(body, request)
    if request.model.api in _RESPONSES and tiers.official(request, HOSTS):
        shaped = tiers.tier(shaped, request, TIERS, "priority")
    return shaped


def reasons(model_id: str) -> bool:
    """The o series and GPT-5 and later think."""
    name = efforts.bare(model_id)
    return bool(re.match(r"o\d|gpt-([5-9]|\d{2})|codex", name)) and "chat" not in name


def known(id: str, name: str, window: int = 400_000, *, reasoning: bool = True, most: int = 128_000) -> VendorModel:
    return VendorModel(id, name, reasoning=reasoning, vision=True, context_window=window, max_tokens=most)


VENDOR = Vendor(
    id="openai",
    name="OpenAI",
    api="openai-responses",
    base_url="https://api.openai.com/v1",
    keys=("OPENAI_API_KEY",),
    models=(
        known("gpt-5.5", "GPT-5.5", 1_000_000),
        known("gpt-5.5-pro", "GPT-5.5 Pro", 1_000_000),
        known("gpt-5.4", "GPT-5.4", 1_050_000),
        known("gpt-5.4-mini", "GPT-5.4 mini"),
        known("gpt-5.4-nano", "GPT-5.4 nano"),
        known("gpt-5.3-codex", "GPT-5.3 Codex"),
        known("gpt-5.2", "GPT-5.2"),
        known("gpt-5.2-codex", "GPT-5.2 Codex"),
        known("gpt-5.1", "GPT-5.1"),
        known("gpt-5", "GPT-5"),
        known("gpt-5-mini", "GPT-5 mini"),
        known("gpt-5-nano", "GPT-5 nano"),
        known("o3", "o3", 200_000, most=100_000),
        known("o4-mini", "o4-mini", 200_000, most=100_000),
        known("gpt-4.1", "GPT-4.1", 1_047_576, reasoning=False, most=32_768),
        known("gpt-4o", "GPT-4o", 128_000, reasoning=False, most=16_384),
    ),
    profile=efforts.profile,
    shape=shape,
    reasons=reasons,
)
