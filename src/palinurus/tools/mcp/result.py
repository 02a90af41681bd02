"""What a server answered -> Output. Pure but for the boundary's randomness.

Everything in it is the server's: text is wrapped as untrusted, the source is named, images and sizes are checked.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from collections.abc import Mapping
from typing import Any

from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.core.types.tool import ToolOutput
from palinurus.core.untrusted import clean_label, wrap_untrusted

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MAX_PICTURES = 8
MAX_TEXT = 2_000_000  # characters; what goes to the model is cut further at the one door


def to_output(server: str, tool: str, answer: Mapping[str, Any]) -> ToolOutput:
    """The result of one call, errors included."""
    texts: list[str] = []
    pictures: list[ImageBlock] = []
    for block in _dicts(answer.get("content")):
        made = _block(block)
        if isinstance(made, ImageBlock) and len(pictures) < MAX_PICTURES:
            pictures.append(made)
        else:
            texts.append("[an image more than are shown]" if isinstance(made, ImageBlock) else made)
    structured = answer.get("structuredContent")
    if structured is not None and not any(texts):
        texts.append(json.dumps(structured, ensure_ascii=False))
    details = {"server": server, "tool": clean_label(tool, 80)}
    return frame_output(server, texts, pictures, details, error=answer.get("isError") is True)


def frame_output(
    server: str, texts: list[str], pictures: list[ImageBlock], details: dict[str, Any], *, error: bool = False
) -> ToolOutput:
    """Texts of the server as one wrapped block, and its pictures."""
    text = "\n".join(one for one in texts if one)[:MAX_TEXT]
    source = f"mcp:{server}"
    words = (TextBlock(wrap_untrusted(text, f"MCP server {server}", secrets.token_hex(16))),) if text else ()
    return ToolOutput((*words, *pictures), details, error, source=source)


def frame_resource(server: str, parts: list[dict[str, Any]]) -> ToolOutput:
    """A resource that was read."""
    blocks = [_resource(part) for part in parts]
    texts = [one for one in blocks if isinstance(one, str)]
    return frame_output(
        server, texts, [one for one in blocks if isinstance(one, ImageBlock)][:MAX_PICTURES], {"server": server}
    )


def _block(block: Mapping[str, Any]) -> str | ImageBlock:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text") or "")
    if kind == "image":
        return _picture(str(block.get("data") or ""), str(block.get("mimeType") or ""))
    if kind == "resource" and isinstance(block.get("resource"), dict):
        return _resource(block["resource"])
    if kind == "resource_link":
        about = clean_label(str(block.get("description") or ""), 300)
        return f"[resource {clean_label(str(block.get('uri')))}: {clean_label(str(block.get('name')))}] {about}".strip()
    return f"[{clean_label(str(kind), 40)}: {clean_label(str(block.get('mimeType') or 'not shown'), 80)}]"


def _resource(part: Mapping[str, Any]) -> str | ImageBlock:
    where, kind = clean_label(str(part.get("uri") or "")), str(part.get("mimeType") or "")
    if isinstance(part.get("text"), str):
        return f"[resource {where}]\n{part['text']}"
    blob = str(part.get("blob") or "")
    if kind.lower() in PICTURES:
        return _picture(blob, kind)
    return f"[resource {where}: {clean_label(kind or 'binary', 80)}, {len(blob) * 3 // 4} bytes, not shown]"


def _picture(data: str, kind: str) -> str | ImageBlock:
    kind = kind.lower().strip()
    if kind not in PICTURES:
        return f"[an image of the kind {clean_label(kind or 'unknown', 60)}, which is not shown]"
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return "[an image that cannot be read]"
    return ImageBlock(data, kind)


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
