"""The Converse API: turns, toolUse and toolResult, no blank text, reasoning with its signature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from palinurus.testing.validators.shape import (
    IDENT,
    check_base64,
    check_name,
    check_tool_schema,
    check_unique,
    is_blank,
)

_FORMATS = ("png", "jpeg", "gif", "webp")
_USER = ("text", "image", "toolResult", "cachePoint")
_ASSISTANT = ("text", "toolUse", "reasoningContent")


def check_bedrock(body: dict[str, Any]) -> list[str]:
    """Why the API would refuse this body."""
    return [*_head(body), *_turns(body), *_thinking(body)]


def _head(body: dict[str, Any]) -> Iterator[str]:
    tools = (body.get("toolConfig") or {}).get("tools") or []
    for tool in tools:
        yield from check_name("toolSpec", tool["toolSpec"].get("name"))
        yield from check_tool_schema("toolSpec", tool["toolSpec"]["inputSchema"].get("json"))
        if is_blank(tool["toolSpec"].get("description")):
            yield "toolSpec: description must not be empty"
    yield from check_unique("toolSpec", [tool["toolSpec"].get("name") for tool in tools])
    used = any("toolUse" in b or "toolResult" in b for m in body.get("messages") or () for b in m["content"])
    if used and not tools:
        yield "toolConfig must be defined when using toolUse and toolResult content blocks"
    for block in body.get("system") or ():
        if "cachePoint" not in block and is_blank(block.get("text")):
            yield "system: blank text"


def _turns(body: dict[str, Any]) -> Iterator[str]:
    messages = body.get("messages")
    if not messages:
        yield "messages: required"
        return
    if messages[-1]["role"] != "user":
        yield "the conversation must end with a user message"
    owed: list[str] = []
    used: list[str] = []
    for number, message in enumerate(messages):
        where, role, content = f"messages.{number}", message["role"], message["content"]
        if role != ("assistant" if number % 2 else "user"):
            yield f"{where}: roles must alternate, beginning with user"
        if not content:
            yield f"{where}: the content field is empty"
        answered = [str(b["toolResult"].get("toolUseId")) for b in content if "toolResult" in b]
        if sorted(answered) != sorted(owed):
            yield f"{where}: expected toolResult blocks for {owed}, found {answered}"
        if answered and any("toolResult" not in block for block in content[: len(answered)]):
            yield f"{where}: toolResult blocks must come first"
        owed = [str(b["toolUse"].get("toolUseId")) for b in content if "toolUse" in b]
        used += owed
        for block in content:
            yield from _block(where, role, block)
    if owed:
        yield f"toolUse ids {owed} were found without toolResult blocks"
    yield from check_unique("toolUse ids", used)


def _block(where: str, role: str, block: dict[str, Any]) -> Iterator[str]:
    if len(block) != 1 or next(iter(block)) not in (_USER if role == "user" else _ASSISTANT):
        yield f"{where}: {sorted(block)} is not a block of {role}"
        return
    ((kind, value),) = block.items()
    if kind == "text" and is_blank(value):
        yield f"{where}: the text field in the ContentBlock object is blank"
    elif kind == "image":
        yield from _image(where, value)
    elif kind == "toolUse":
        yield from check_name(where, value.get("name"))
        yield from check_name(f"{where}.toolUseId", value.get("toolUseId"), IDENT)
        if not isinstance(value.get("input"), dict):
            yield f"{where}: input must be an object"
    elif kind == "toolResult":
        if not value.get("content") or value.get("status") not in ("success", "error"):
            yield f"{where}: a toolResult needs content and a status"
        for inner in value.get("content") or ():
            if "image" in inner:
                yield from _image(where, inner["image"])
            elif is_blank(inner.get("text")):
                yield f"{where}: blank text in a toolResult"
    elif kind == "reasoningContent" and "redactedContent" not in value:
        text = value.get("reasoningText") or {}
        if is_blank(text.get("text")) or is_blank(text.get("signature")):
            yield f"{where}: reasoningText needs text and signature"
    elif kind == "reasoningContent":
        yield from check_base64(where, value["redactedContent"])


def _image(where: str, image: dict[str, Any]) -> Iterator[str]:
    if image.get("format") not in _FORMATS:
        yield f"{where}: unknown image format {image.get('format')!r}"
    yield from check_base64(where, (image.get("source") or {}).get("bytes"))


def _thinking(body: dict[str, Any]) -> Iterator[str]:
    extra = body.get("additionalModelRequestFields") or {}
    if (extra.get("thinking") or {}).get("type") != "enabled":
        return
    if "temperature" in (body.get("inferenceConfig") or {}):
        yield "temperature may only be set to 1 when thinking is enabled"
    last, before = body["messages"][-1], body["messages"][-2:-1]
    if before and any("toolResult" in b for b in last["content"]) and "reasoningContent" not in before[0]["content"][0]:
        yield "the final assistant message must start with a thinking block"
