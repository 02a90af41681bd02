"""The one place that knows the JSON5 parser. Loaded for texts that are not plain JSON."""

from __future__ import annotations

from typing import Any

import pyjson5


def decode(text: str, depth: int) -> Any:
    """What the text says. Raises ValueError, with the parser's message."""
    try:
        return pyjson5.decode(text, depth)
    except (pyjson5.Json5Exception, RecursionError) as error:
        raise ValueError(str(error.args[0] if error.args else "")) from None
