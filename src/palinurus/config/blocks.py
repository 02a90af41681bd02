"""agents.defaults.blockStreaming*: whether and how a long answer goes out in parts. Pure."""

from __future__ import annotations

from typing import Any

from palinurus.config.schema.agents import AgentDefaults
from palinurus.core.stream.chunk import BlockSettings


def blocks(defaults: AgentDefaults | None) -> tuple[bool, BlockSettings]:
    """(on by default, how). Sizes that make no sense count as not said; the least never exceeds the most."""
    usual = BlockSettings()
    if defaults is None:
        return False, usual
    chunk: dict[str, Any] = dict(defaults.block_streaming_chunk or {})
    most = _size(chunk.get("maxChars"), usual.max_chars)
    least = min(_size(chunk.get("minChars"), usual.min_chars), most)
    prefer = chunk.get("breakPreference")
    return defaults.block_streaming_default == "on", BlockSettings(
        least,
        most,
        prefer if prefer in ("paragraph", "newline", "sentence") else usual.prefer,
        defaults.block_streaming_break or usual.at,
    )


def _size(value: Any, fallback: int) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return int(value) if whole else fallback
