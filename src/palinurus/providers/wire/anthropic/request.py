"""Request -> Messages body. Pure. Cache marks lie where the prefix is the same next time.

At most four marks are allowed: the last tool, the stable part of the system prompt, and the ends of the last two
user turns (the older one is where the previous request ended, so that a long batch of results still finds it).
How a level becomes thinking fields is the vendor's affair.
"""

from __future__ import annotations

from typing import Any

from palinurus.core.types.messages import Assistant, Image, Text, Thinking, ToolCall, ToolResult, User
from palinurus.core.types.model import Request
from palinurus.providers.wire.replay import NO_IMAGE, safe_ids

VERSION = "2023-06-01"
MAX_OUTPUT = 32_000  # when nothing is asked for
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_CHOICES: dict[str, str] = {"auto": "auto", "none": "none", "required": "any", "any": "any"}
_ident = safe_ids(64)


def encode(request: Request) -> dict[str, Any]:
    """The body, ready for JSON."""
    model, params = request.model, request.model.params
    mark = _mark(params)
    messages = _messages(request)
    asked = request.max_tokens or params.get("maxTokens")
    body: dict[str, Any] = {
        "model": model.ref.model,
        "max_tokens": asked or min(model.max_tokens, MAX_OUTPUT),
        "messages": messages,
        "stream": True,
    }
    system = _system(request, mark)
    if system:
        body["system"] = system
    if request.tools and model.tools:
        tools: list[dict[str, Any]] = [
            {"name": t.name, "description": t.description, "input_schema": t.parameters} for t in request.tools
        ]
        if mark:
            tools[-1]["cache_control"] = mark
        body["tools"] = tools
        if request.tool_choice is not None:
            body["tool_choice"] = _choice(request.tool_choice)
    if mark:
        _mark_turns(messages, mark)
    temperature = params.get("temperature") if request.temperature is None else request.temperature
    if temperature is not None:
        body["temperature"] = temperature
    return body


def path(request: Request) -> str:
    """The tail of the URL; bases are written with and without the version."""
    base = request.model.base_url.rstrip("/")
    return "" if base.endswith("/messages") else "/messages" if base.endswith("/v1") else "/v1/messages"


def headers(request: Request) -> dict[str, str]:
    """The protocol version."""
    return {"anthropic-version": VERSION}


def _mark(params: dict[str, Any]) -> dict[str, Any] | None:
    keep = params.get("cacheRetention", "short")
    if keep == "none":
        return None
    return {"type": "ephemeral", "ttl": "1h"} if keep == "long" else {"type": "ephemeral"}


def _system(request: Request, mark: dict[str, Any] | None) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    if request.prompt.stable.strip():
        out.append({"type": "text", "text": request.prompt.stable})
        if mark:
            out[0]["cache_control"] = mark
    if request.prompt.volatile.strip():
        out.append({"type": "text", "text": request.prompt.volatile})
    return out


def _mark_turns(messages: list[dict[str, Any]], mark: dict[str, Any]) -> None:
    users = [m for m in messages if m["role"] == "user"]
    for message in users[-2:]:
        message["content"][-1]["cache_control"] = mark


def _choice(choice: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(choice, str):
        return {"type": _CHOICES.get(choice, "auto")}
    function = choice.get("function")
    if isinstance(function, dict):
        return {"type": "tool", "name": function.get("name", "")}
    return choice


def _messages(request: Request) -> list[dict[str, Any]]:
    """Turns alternate: what follows in the same role is joined. The first is the user's."""
    out: list[dict[str, Any]] = []
    for message in request.messages:
        role = "assistant" if isinstance(message, Assistant) else "user"
        content = _content(message, request)
        if not content:
            continue
        if out and out[-1]["role"] == role:
            out[-1]["content"] += content
        else:
            out.append({"role": role, "content": content})
    if out and out[0]["role"] == "assistant":
        out.insert(0, {"role": "user", "content": [{"type": "text", "text": "(continued)"}]})
    return out


def _content(message: User | Assistant | ToolResult, request: Request) -> list[dict[str, Any]]:
    vision = request.model.vision
    if isinstance(message, User):
        return _plain(message.blocks, vision)
    if isinstance(message, ToolResult):
        block: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": _ident(message.toolCallId),
            "content": _plain(message.content, vision),
        }
        if message.isError:
            block["is_error"] = True
        return [block]
    return _said(message, request)


def _plain(blocks: tuple[Text | Image, ...], vision: bool) -> list[dict[str, Any]]:
    """Blank text is refused by the protocol and therefore left out."""
    out: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, Text):
            if block.text and not block.text.isspace():
                out.append({"type": "text", "text": block.text})
        elif vision and block.mimeType in _IMAGES:
            source = {"type": "base64", "media_type": block.mimeType, "data": block.data}
            out.append({"type": "image", "source": source})
        else:
            out.append({"type": "text", "text": NO_IMAGE})
    return out


def _said(message: Assistant, request: Request) -> list[dict[str, Any]]:
    ref = request.model.ref
    same = message.same_route(request.model.api, ref.provider, ref.model)
    out: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, Text):
            if block.text and not block.text.isspace():
                out.append({"type": "text", "text": block.text})
        elif isinstance(block, ToolCall):
            out.append({"type": "tool_use", "id": _ident(block.id), "name": block.name, "input": block.arguments})
        elif isinstance(block, Thinking) and same and (signature := (block.thinkingSignature or "").strip()):
            if block.redacted:
                out.append({"type": "redacted_thinking", "data": signature})
            else:
                out.append({"type": "thinking", "thinking": block.thinking, "signature": signature})
    return out if any(b["type"] in ("text", "tool_use") for b in out) else []
