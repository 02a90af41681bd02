"""What a server says, made fit for models: names, descriptions and schemas of its tools, and its answers. Pure, but for
the randomness of the frame.

All of it is written by others: it is bounded, made inert or wrapped as untrusted, and never shadows a tool of ours.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
from collections.abc import Collection, Mapping
from typing import Any

from palinurus.core.text import cut_end
from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.core.types.tool import ToolOutput
from palinurus.core.untrusted import clean_label, make_inert, wrap_untrusted
from palinurus.patterns import compile_late

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MAX_PICTURES = 8
MAX_NAME = 64  # what every provider takes
MAX_DESCRIPTION = 1024
MAX_SCHEMA = 32_000  # characters of JSON
MAX_TOOLS = 512  # of one server; many are found by search (`search.py`)
_DEPTH = 12
_OTHER = compile_late(r"[^A-Za-z0-9_-]+")
# Words of JSON Schema that say nothing to a model, or that providers refuse.
_DROPPED = frozenset(
    ("$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "examples", "deprecated", "readOnly",
     "writeOnly", "contentEncoding", "contentMediaType", "if", "then", "else", "not", "dependentRequired",
     "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "patternProperties", "propertyNames")
)  # fmt: skip
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


def make_tool_name(server: str, tool: str, taken: Collection[str]) -> str:
    """`server__tool`, in characters that providers take; where that is too long or taken, with a few hex digits."""
    plain = f"{_plain(server)}__{_plain(tool)}"
    if len(plain) <= MAX_NAME and plain.lower() not in taken:
        return plain
    mark = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "replace")).hexdigest()[:8]
    return f"{plain[: MAX_NAME - 9]}_{mark}"


def _plain(text: str) -> str:
    return _OTHER.sub("_", text).strip("_") or "x"


def describe_tool(server: str, listed: Mapping[str, Any]) -> str:
    """What the model is told the tool does."""
    told = listed.get("description") or listed.get("title") or f"The tool {clean_label(str(listed.get('name')), 80)}."
    text = make_inert(str(told)[: MAX_DESCRIPTION * 2]).strip()
    return f"[MCP server {clean_label(server, 40)}] {cut_end(text, MAX_DESCRIPTION)}"


def clean_schema(given: Any) -> dict[str, Any]:
    """The arguments' schema: references resolved, unusual words gone; anything goes where it is not usable."""
    anything: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
    if not isinstance(given, dict):
        return anything
    try:
        if len(json.dumps(given)) > MAX_SCHEMA:
            return anything
        made = _clean(_merged(given), given, 0)
        if len(json.dumps(made)) > MAX_SCHEMA:
            return anything
    except (AttributeError, TypeError, ValueError, RecursionError):  # not of the form a schema has
        return anything
    made.pop("anyOf", None)
    made.pop("oneOf", None)
    properties = made.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    needed = made.get("required")
    needed = [one for one in needed if isinstance(one, str) and one in properties] if isinstance(needed, list) else []
    kept = {key: made[key] for key in ("description", "additionalProperties") if key in made}
    return {"type": "object", "properties": properties, **({"required": needed} if needed else {}), **kept}


def _merged(given: dict[str, Any]) -> dict[str, Any]:
    """With the properties of what it is made of: providers take no choice at the top."""
    properties = dict(given.get("properties") or {})
    needed = list(given.get("required") or ())
    for word in ("allOf", "anyOf", "oneOf"):
        for part in given.get(word) or ():
            part = _found(part, given) if isinstance(part, dict) else {}
            for key, value in (part.get("properties") or {}).items():
                properties.setdefault(key, value)
            needed += (part.get("required") or ()) if word == "allOf" else ()
    return {**{k: v for k, v in given.items() if k != "allOf"}, "properties": properties, "required": needed}


def _found(part: dict[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """What a local reference stands for."""
    where = part.get("$ref")
    if not isinstance(where, str):
        return part
    at: Any = root
    for step in where.removeprefix("#").strip("/").split("/") if where.startswith("#") else ():
        at = at.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(at, dict) else None
    rest = {key: value for key, value in part.items() if key != "$ref"}
    return {**at, **rest} if isinstance(at, dict) and at is not root else rest


def _clean(part: Any, root: Mapping[str, Any], depth: int) -> Any:
    if depth > _DEPTH:
        return {}
    if isinstance(part, list):
        return [_clean(one, root, depth + 1) for one in part]
    if not isinstance(part, dict):
        return part
    made: dict[str, Any] = {}
    for key, value in _found(part, root).items():
        if key in _DROPPED or key.startswith(("x-", "$")):
            continue
        if key in ("description", "title"):
            made[key] = clean_label(str(value), MAX_DESCRIPTION)
        elif key == "properties" and isinstance(value, dict):
            # a name that hides something is left out: under another one the server would not know it
            fit = {one: below for one, below in value.items() if clean_label(one, 64) == one}
            made[key] = {one: _clean(below, root, depth + 1) for one, below in fit.items()}
        elif key in ("enum", "const", "default", "required", "type"):
            made[key] = value
        else:
            made[key] = _clean(value, root, depth + 1)
    return made
