"""What every wire needs to send a conversation back: tool call ids a vendor accepts, words for what it cannot take.

Pure and deterministic: the same history gives the same bytes, or the prompt cache is lost.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from palinurus.core.types.messages import Image, Text

NO_IMAGE = "[an image was here; this model cannot see images]"
NO_OUTPUT = "(no output)"
SEE_IMAGE = "(see the attached image)"

_SAFE = re.compile(r"[A-Za-z0-9_-]+")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_ALNUM = re.compile(r"[A-Za-z0-9]+")


def safe_ids(longest: int) -> Callable[[str], str]:
    """A function: letters, digits, _ and - up to `longest` stay; others keep a readable part and get a digest."""

    def ident(raw: str) -> str:
        if len(raw) <= longest and _SAFE.fullmatch(raw):
            return raw
        return f"{_UNSAFE.sub('_', raw)[: longest - 13]}_{digest(raw)[:12]}"

    return ident


def exact_ids(length: int) -> Callable[[str], str]:
    """A function: ids of exactly `length` letters and digits; others become a digest of that length."""

    def ident(raw: str) -> str:
        return raw if len(raw) == length and _ALNUM.fullmatch(raw) else digest(raw)[:length]

    return ident


def digest(raw: str) -> str:
    """Hexadecimal, the same for ever."""
    return hashlib.sha256(raw.encode("utf-8", "replace")).hexdigest()


def texts(blocks: tuple[Text | Image, ...], vision: bool) -> str:
    """The blocks as text alone; images become words unless the model sees them elsewhere."""
    if len(blocks) == 1 and isinstance(blocks[0], Text):
        return blocks[0].text
    return "\n".join([b.text if isinstance(b, Text) else NO_IMAGE for b in blocks if isinstance(b, Text) or not vision])
