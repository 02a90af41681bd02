"""LiteLLM: a proxy in front of other vendors; what its models can do is up to the config."""

from __future__ import annotations

from palinurus.core.types.vendor import Vendor
from palinurus.providers.vendors import custom

LITELLM = Vendor(
    id="litellm",
    name="LiteLLM",
    api="openai-completions",
    base_url="http://127.0.0.1:4000",
    keys=("LITELLM_API_KEY",),
    profile=custom.resolve_custom_profile,
    shape=custom.shape_custom_body,
    headers=custom.build_custom_headers,
)
