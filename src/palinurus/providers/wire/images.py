"""Pictures made by models: an order as a request, an answer as pictures. Two protocols: OpenAI's `/images/generations`
(with pictures to go by: `/images/edits`), which many servers speak, and Gemini's generateContent. Pure.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from palinurus.core.types.model import ImageOrder, ModelFailure
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.errors import clip_message

BOUNDARY = "palinurus-7f3c1e5a9b2d4c68"  # followed by what the caller makes up
# OpenAI takes sizes, Gemini shapes: each is made of the other where only that was said.
SIZES: dict[str, str] = {"1:1": "1024x1024", "3:2": "1536x1024", "2:3": "1024x1536"}
RATIOS = ("1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9")


class ImageHttpCall(msgspec.Struct, frozen=True):
    """One request: where below the base URL, what kind, what."""

    path: str
    kind: str
    body: bytes


class MadeImages(msgspec.Struct, frozen=True):
    """The pictures of one answer, and the tokens they took."""

    images: tuple[bytes, ...]
    usage: TokenUsage = TokenUsage()


def build_openai_images(model: str, order: ImageOrder, mark: str) -> ImageHttpCall:
    """`mark`: letters that stand in no picture, for the borders of a form."""
    ours = model.startswith(("gpt-image", "chatgpt-image"))
    fields: dict[str, Any] = {"model": model, "prompt": order.prompt, "n": order.count}
    size = order.size or SIZES.get(_nearest(order.aspect, tuple(SIZES)), "")
    fields |= {name: value for name, value in (("size", size), ("quality", order.quality)) if value}
    if ours:
        more = (("output_format", order.format), ("background", order.background))
        fields |= {name: value for name, value in more if value}
    else:
        fields["response_format"] = "b64_json"  # an address would have to be fetched, and runs out
    if not order.images:
        return ImageHttpCall("/images/generations", "application/json", msgspec.json.encode(fields))
    border = BOUNDARY + mark
    parts = [
        f'--{border}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    for at, one in enumerate(order.images):
        name = "image[]" if ours else "image"
        head = f'--{border}\r\nContent-Disposition: form-data; name="{name}"; filename="{at}.{one.mime[6:]}"'
        parts += [f"{head}\r\nContent-Type: {one.mime}\r\n\r\n".encode(), one.data, b"\r\n"]
    body = b"".join((*parts, f"--{border}--\r\n".encode()))
    return ImageHttpCall("/images/edits", f"multipart/form-data; boundary={border}", body)


def build_gemini_images(model: str, order: ImageOrder, mark: str) -> ImageHttpCall:
    """One picture; who wants several asks several times."""
    parts: list[dict[str, Any]] = [{"text": order.prompt}]
    parts += [
        {"inlineData": {"mimeType": one.mime, "data": base64.b64encode(one.data).decode()}} for one in order.images
    ]
    shape = _nearest(order.aspect or order.size.replace("x", ":"), RATIOS)
    wanted = {name: value for name, value in (("aspectRatio", shape), ("imageSize", order.resolution)) if value}
    config: dict[str, Any] = {"responseModalities": ["TEXT", "IMAGE"]}
    if wanted:
        config["imageConfig"] = wanted
    body = {"contents": [{"role": "user", "parts": parts}], "generationConfig": config}
    name = quote(model.removeprefix("models/"), safe="")
    return ImageHttpCall(f"/models/{name}:generateContent", "application/json", msgspec.json.encode(body))


def _nearest(shape: str, known: tuple[str, ...]) -> str:
    """The known shape that looks most like it; "" for none."""
    wanted = _ratio(shape)
    return min(known, key=lambda one: abs(_ratio(one) / wanted - 1)) if wanted else ""


def _ratio(shape: str) -> float:
    wide, _, high = shape.partition(":")
    if not (wide.isascii() and high.isascii() and wide.isdigit() and high.isdigit()):
        return 0.0
    return int(wide) / int(high) if int(high) else 0.0


def read_openai_images(body: bytes) -> MadeImages | ModelFailure:
    """The pictures of an answer, or what is wrong with it."""
    told = _decode(body)
    rows = told.get("data")
    found = [_picture(row.get("b64_json")) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    usage = told.get("usage")
    return _made(found, _usage(usage, "input_tokens", "output_tokens"), "the answer holds no picture")


def read_gemini_images(body: bytes) -> MadeImages | ModelFailure:
    """The same for Gemini, which may say in words why there is none."""
    told = _decode(body)
    found, words = list[bytes](), list[str]()
    for candidate in _dicts(told.get("candidates")):
        content = candidate.get("content")
        for part in _dicts(content.get("parts") if isinstance(content, dict) else None):
            inline = part.get("inlineData") or part.get("inline_data")
            if isinstance(inline, dict):
                found.append(_picture(inline.get("data")))
            elif isinstance(part.get("text"), str) and not part.get("thought"):
                words.append(part["text"])
        words.append(str(candidate.get("finishMessage") or ""))
    feedback = told.get("promptFeedback")
    blocked = str(feedback.get("blockReason") or "") if isinstance(feedback, dict) else ""
    why = blocked or " ".join(" ".join(words).split())[:200] or "the answer holds no picture"
    return _made(found, _usage(told.get("usageMetadata"), "promptTokenCount", "candidatesTokenCount"), why)


def _made(found: list[bytes], usage: TokenUsage, why: str) -> MadeImages | ModelFailure:
    images = tuple(one for one in found if one)
    return MadeImages(images, usage) if images else ModelFailure("refused", clip_message(why))


def _usage(told: Any, given: str, made: str) -> TokenUsage:
    if not isinstance(told, Mapping):
        return TokenUsage()
    first, second = (value if type(value) is int and value > 0 else 0 for value in (told.get(given), told.get(made)))
    return TokenUsage(first, second, totalTokens=first + second)


def _decode(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _dicts(rows: Any) -> list[dict[str, Any]]:
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _picture(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        return b""
