"""JSON5 as people write it, and plain JSON without loading a parser for more: configs that programs wrote are that.

Both say the same of the same text; where plain JSON is less strict than JSON5, or may be, JSON5 decides.
"""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus import late

MAX_DEPTH = 64


def decode_json5(text: str) -> Any:
    """What the text says. Raises ValueError; its text may quote a value."""
    if text.lstrip(" \t\r\n").startswith("{"):  # a value by itself is for JSON5, which is strict about its end
        try:
            found = msgspec.json.decode(text)
        except (msgspec.DecodeError, ValueError, RecursionError):
            found = None
        if found is not None and not _deep(found):
            return found
    parser = late.load_part("json5")
    try:
        return parser.decode(text, MAX_DEPTH)
    except (parser.Json5Exception, RecursionError) as error:
        raise ValueError(str(error.args[0] if error.args else "")) from None


def _deep(value: Any) -> bool:
    """Is it nested nearly as deep as it may be, or deeper?"""
    level = [value]
    for _ in range(MAX_DEPTH - 4):
        level = [one for box in level for one in (box.values() if isinstance(box, dict) else box) if one]
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return False
    return True
