"""SGLang: a server for local models; thinking is switched in the chat template where the config says so."""

from __future__ import annotations

from palinurus.core.types.vendor import Vendor
from palinurus.providers.vendors import custom

SGLANG = Vendor(
    id="sglang",
    name="SGLang",
    api="openai-completions",
    base_url="http://127.0.0.1:30000/v1",
    keys=("SGLANG_API_KEY",),
    profile=custom.resolve_custom_profile,
    shape=custom.shape_custom_body,
    headers=custom.build_custom_headers,
    keyless=True,
)
