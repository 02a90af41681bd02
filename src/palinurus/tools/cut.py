"""How much of a result the model sees: head and tail, with a mark that says what is gone. Pure.

Whatever a tool returns leaves here as bounded text that can be stored: JSON laid out before it is cut,
binary described instead of shown, no half surrogates.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from palinurus.core.types.messages import Image, Text
from palinurus.tools.coerce import storable

MAX_IMAGE = 7_000_000  # base64 characters; providers refuse more
MAX_DETAILS = 64_000  # bytes of JSON kept beside a result
_MAX_JSON = 2_000_000
_PROBE = 4096
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffd]")


def cut(content: tuple[Text | Image, ...], limit: int) -> tuple[Text | Image, ...]:
    """The blocks within `limit` characters of text altogether. Small clean results come back as they are."""
    left = max(limit, 1)
    kept: list[Text | Image] = []
    for block in content:
        if isinstance(block, Image):
            kept.append(
                block if len(block.data) <= MAX_IMAGE else Text(f"[image left out: {len(block.data)} characters]")
            )
            continue
        text = shown(block.text, left)
        left = max(left - len(text), 1)
        kept.append(block if text is block.text else Text(text))
    return tuple(kept)


def shown(text: str, limit: int) -> str:
    """One text within `limit` characters (the mark comes on top)."""
    text = storable(text)
    if binary(text):
        return f"[binary data, {len(text)} characters, not shown]"
    if len(text) <= limit:
        return text
    return middle(_laid_out(text), limit)


def middle(text: str, limit: int) -> str:
    """Head and tail of `text`, `limit` characters in all, and how many are missing between."""
    if len(text) <= limit:
        return text
    tail = limit // 3
    head = limit - tail
    gone = len(text) - head - tail
    return f"{text[:head]}\n[… {gone} characters left out …]\n{text[len(text) - tail :]}"


def binary(text: str) -> bool:
    """True if text is no text: over a tenth of its beginning is control characters or undecodable."""
    probe = text[:_PROBE]
    return not probe.isprintable() and len(_CONTROL.findall(probe)) * 10 > len(probe)


def storable_details(value: Any) -> Any:
    """Details as JSON can hold them, or a note of what they were when they are too large or no JSON at all."""
    if value is None:
        return None
    try:
        size = len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return {"omitted": f"not storable: {type(value).__name__}"}
    return value if size <= MAX_DETAILS else {"omitted": f"{size} bytes"}


def _laid_out(text: str) -> str:
    if text.lstrip()[:1] not in ("{", "[") or len(text) > _MAX_JSON or "\n" in text[:400]:
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
