"""What every wire needs to send a conversation back: ids and names a vendor accepts, words for what it cannot take.

Pure and deterministic: the same history gives the same bytes, or the prompt cache is lost.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Any

from palinurus.core.types.messages import AssistantMessage, ImageBlock, Message, TextBlock
from palinurus.core.types.model import ModelSpec

NO_IMAGE = "[an image was here; this model cannot see images]"
NO_OUTPUT = "(no output)"
SEE_IMAGE = "(see the attached image)"
EMPTY_MESSAGE = "(empty message)"
OPENING = "(the conversation continues)"  # where a history begins with an answer
TOOL_GONE = "No longer available."  # describes a tool that only the history knows
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")

_SAFE = re.compile(r"[A-Za-z0-9_-]+")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_ALNUM = re.compile(r"[A-Za-z0-9]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class CallIds:
    """Ids of one request: what `make` gives, but never the same for two."""

    __slots__ = ("_given", "_make", "_taken", "names")

    def __init__(self, make: Callable[[str], str]) -> None:
        self.names: dict[str, str] = {}  # raw id -> the tool called under it: results must name the same
        self._make = make
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()

    def __call__(self, raw: str) -> str:
        found = self._given.get(raw)
        if found is None:
            found = self._make(raw)
            while found in self._taken:
                found = self._make(digest_id(raw + found))
            self._taken.add(found)
            self._given[raw] = found
        return found


def make_tool_name(raw: str) -> str:
    """A name every API takes. Models invent names; what they invented is in the history for ever."""
    if _NAME.fullmatch(raw):
        return raw
    plain = _UNSAFE.sub("_", raw)[:64]
    return plain if _NAME.fullmatch(plain) else f"_{plain}"[:64]


def is_own_answer(message: AssistantMessage, model: ModelSpec) -> bool:
    """May this answer's thoughts go back there? Only where they come from, and only if the answer was complete."""
    return not message.failed and message.same_route(model.api, model.ref.provider, model.ref.model)


def is_sendable(image: ImageBlock, kinds: tuple[str, ...] = IMAGES) -> bool:
    """Can this picture be sent at all?"""
    return bool(image.data) and image.mimeType in kinds


def make_object_schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """A tool's parameters with the type that every API demands."""
    return parameters if parameters.get("type") == "object" else {**parameters, "type": "object"}


def list_used_tools(messages: Iterable[Message]) -> list[str]:
    """Names of the tools a history calls. Some APIs refuse calls of tools that the request does not define."""
    return sorted({make_tool_name(call.name) for m in messages if isinstance(m, AssistantMessage) for call in m.calls})


def make_safe_ids(longest: int) -> Callable[[str], str]:
    """A function: letters, digits, _ and - up to `longest` stay; others keep a readable part and get a digest."""

    def ident(raw: str) -> str:
        if len(raw) <= longest and _SAFE.fullmatch(raw):
            return raw
        return f"{_UNSAFE.sub('_', raw)[: longest - 13]}_{digest_id(raw)[:12]}"

    return ident


def make_exact_ids(length: int) -> Callable[[str], str]:
    """A function: ids of exactly `length` letters and digits; others become a digest of that length."""

    def ident(raw: str) -> str:
        return raw if len(raw) == length and _ALNUM.fullmatch(raw) else digest_id(raw)[:length]

    return ident


def digest_id(raw: str) -> str:
    """Hexadecimal, the same for ever."""
    return hashlib.sha256(raw.encode("utf-8", "replace")).hexdigest()


def join_texts(blocks: tuple[TextBlock | ImageBlock, ...], vision: bool) -> str:
    """The blocks as text alone; images become words unless the model sees them elsewhere. Blank text is nothing."""
    shown = [
        b.text if isinstance(b, TextBlock) else NO_IMAGE
        for b in blocks
        if isinstance(b, TextBlock) or not (vision and is_sendable(b))
    ]
    text = shown[0] if len(shown) == 1 else "\n".join(shown)
    return "" if text.isspace() else text
