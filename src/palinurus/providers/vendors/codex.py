"""The Codex program as a provider: it does whole runs (`agent/runtimes/codex.py`), with its own sign-in."""

from __future__ import annotations

from palinurus.core.types.vendor import Vendor
from palinurus.providers.vendors import efforts, openai

CODEX_PROGRAM = Vendor(
    id="codex",
    name="Codex (program)",
    api="runtime",
    base_url="",
    keyless=True,
    profile=efforts.resolve_effort_profile,
    reasons=openai.can_openai_reason,
)
