"""Thinking levels for those who know a model by name only: tool plugins, schedules, other agents' requests.

OpenClaw's names for these are resolveThinkingPolicy and normalizeThinkingLevel.
"""

from __future__ import annotations

from collections.abc import Callable

from palinurus.core.levels import spellings, thinking
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.model import ModelFailure, ModelSpec
from palinurus.core.types.vendor import Vendor
from palinurus.providers import FALLBACK_VENDORS, VENDORS, load_row


def resolve_thinking_policy(
    provider: str,
    model: str,
    catalog: Callable[[str], ModelSpec | ModelFailure] | None = None,
    vendor: Vendor | None = None,
) -> thinking.ThinkingRow:
    """The levels (id and label), their labels, and the default of one model.

    With a catalog (its `find`, bound to an agent) what the config opts into counts; without one the vendor's own
    knowledge must do. `vendor`: one that only a plugin brings.
    """
    ref = ModelRef(provider.strip().lower(), model.strip())
    vendor = vendor or load_row(VENDORS, ref.provider) or load_row(FALLBACK_VENDORS, "custom")
    assert vendor is not None
    found = catalog(str(ref)) if catalog is not None else None
    return thinking.make_thinking_row(found if isinstance(found, ModelSpec) else _known(ref, vendor), vendor)


def normalize_thinking_level(text: object) -> str | None:
    """The canonical id for whatever was written, or None."""
    return spellings.parse_thinking(text)


def _known(ref: ModelRef, vendor: Vendor) -> ModelSpec:
    listed = next((m for m in vendor.models if m.id == ref.model), None)
    reasons: bool | None = listed.reasoning if listed is not None else None
    if listed is None and vendor.reasons is not None:
        reasons = vendor.reasons(ref.model)
    return ModelSpec(ref, vendor.api, vendor.base_url, reasoning=reasons)
