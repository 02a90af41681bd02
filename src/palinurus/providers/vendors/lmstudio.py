"""LM Studio: a desktop server for local models."""

from __future__ import annotations

from palinurus.core.types.vendor import Vendor
from palinurus.providers.vendors import custom

LMSTUDIO = Vendor(
    id="lmstudio",
    name="LM Studio",
    api="openai-completions",
    base_url="http://127.0.0.1:1234/v1",
    keys=("LMSTUDIO_API_KEY", "LM_API_TOKEN"),
    profile=custom.resolve_custom_profile,
    shape=custom.shape_custom_body,
    headers=custom.build_custom_headers,
    keyless=True,
)
