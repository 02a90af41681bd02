"""A chosen silence: the model answers with the token NO_REPLY and nothing is sent."""

from __future__ import annotations

import re

TOKEN = "NO_REPLY"
_SILENT = re.compile(rf"\s*{TOKEN}(?:\s+{TOKEN})*\s*", re.IGNORECASE)


def silent(text: str) -> bool:
    """True if the whole text is the token (once or repeated), nothing else."""
    return bool(_SILENT.fullmatch(text))
