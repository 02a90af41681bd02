"""Logging as the gateway does it: one line per event on stderr, control characters escaped, secrets replaced."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable
from typing import TextIO

import msgspec

from palinurus.config.settings import Secret

_SHAPES = re.compile(r"(?i)(bearer\s+)[\w.~+/=-]{8,}|\b(?:sk|pk|ghp|gho|xox[abpr]|AIza)[-_]?[\w-]{16,}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
MIN_SECRET = 6  # shorter values would blank ordinary words


class Scrubbed(logging.Formatter):
    """A line that can be shown to anyone."""

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
        known = sorted({s for s in secrets if len(s) >= MIN_SECRET}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def format(self, record: logging.LogRecord) -> str:
        return self.scrub(super().format(record))

    def scrub(self, text: str) -> str:
        """`text` on one line and without secrets."""
        if self._known is not None:
            text = self._known.sub("***", text)
        text = _SHAPES.sub(lambda m: (m[1] or "") + "***", text)
        return _CONTROL.sub(lambda m: "\\n" if m[0] == "\n" else f"\\x{ord(m[0]):02x}", text)


def start(level: int, secrets: Iterable[str], stream: TextIO | None = None) -> None:
    """Log to `stream` (stderr) from here on."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Scrubbed(secrets))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def secrets(value: object) -> list[str]:
    """Every Secret inside a struct, list, tuple or dict."""
    if isinstance(value, Secret):
        return [value.reveal()] if value else []
    if isinstance(value, msgspec.Struct):
        return [s for name in value.__struct_fields__ for s in secrets(getattr(value, name))]
    if isinstance(value, dict):
        return [s for item in value.values() for s in secrets(item)]
    if isinstance(value, (list, tuple)):
        return [s for item in value for s in secrets(item)]
    return []
