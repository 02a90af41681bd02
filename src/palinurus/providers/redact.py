"""Blanks what looks like a credential in text that is kept: cassettes, error messages. Pure.

Known secrets go first, by value; then shapes that keys and tokens have.
"""

from __future__ import annotations

import re
from typing import Any

from palinurus.patterns import compile_late

BLANK = "***"
_SHAPES = compile_late(
    r"\b(?:sk|pk|rk|xai|gsk|ghp|gho|ghs|hf|npm|glpat|xox[abps])[-_][A-Za-z0-9_*.-]{8,}"
    r"|\bAIza[A-Za-z0-9_-]{20,}|\bAKIA[A-Z0-9]{12,}|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"
    r"|(?<=Bearer )[^\s\"',;]{6,}|(?<=bearer )[^\s\"',;]{6,}",
)
_NAMED = compile_late(
    r"(\b(?:api[-_]?key|x-api-key|access[-_]?token|auth[-_]?token|client[-_]?secret|password|secret)"
    r"[\"']?\s*[=:]\s*[\"']?)([^\s\"'&,;]{6,})",
    re.I,
)


def blank_secrets(text: str, secrets: tuple[str, ...] = ()) -> str:
    """The text without credentials."""
    for secret in secrets:
        if len(secret) >= 4 and secret in text:
            text = text.replace(secret, BLANK)
    return _NAMED.sub(rf"\1{BLANK}", _SHAPES.sub(BLANK, text))


def redact_strings(value: Any, secrets: tuple[str, ...] = ()) -> Any:
    """The same for every string in a JSON value."""
    if isinstance(value, str):
        return blank_secrets(value, secrets)
    if isinstance(value, dict):
        return {k: redact_strings(v, secrets) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [redact_strings(v, secrets) for v in value]
    return value
