"""LM Studio: a desktop server for local models."""

from __future__ import annotations

from palinurus.core.types.vendor import Vendor
from palinurus.providers.vendors import custom

VENDOR = Vendor(
    id="lmstudio",
    name="LM Studio",
    api="openai-completions",
    base_url="http://127.0.0.1:1234/v1",
    keys=("LMSTUDIO_API_KEY", "LM_API_TOKEN"),
    profile=custom.profile,
    shape=custom.shape,
    headers=custom.headers,
    keyless=True,
)
