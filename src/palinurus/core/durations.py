"""Durations as OpenClaw writes them: `30m`, `1h30m`, `500ms`, `2d`, or a bare number in the key's own unit. Pure."""

from __future__ import annotations

import re

from palinurus.patterns import compile_late

UNITS: dict[str, float] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}

_PIECE = compile_late(r"(\d{1,12}(?:\.\d{1,6})?)\s*(ms|s|m|h|d|w)\s*", re.ASCII)
_NUMBER = compile_late(r"\d{1,12}(?:\.\d{1,6})?", re.ASCII)


def parse_duration(text: str | int | float, unit: str) -> float | None:
    """The duration in seconds; None if it cannot be read. `unit` is that of a bare number."""
    text = str(text).strip().lower()
    if _NUMBER.fullmatch(text):
        return float(text) * UNITS[unit]
    total, at = 0.0, 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            return None
        total += float(piece[1]) * UNITS[piece[2]]
        at = piece.end()
    return total if text else None
