"""Request -> Messages body. Pure. Cache marks lie where the prefix is the same next time.

At most four marks are allowed: the last tool, the stable part of the system prompt, and the ends of the last two
user turns (the older one is where the previous request ended, so that a long batch of results still finds it).
How a level becomes thinking fields is the vendor's affair.
"""

from __future__ import annotations

from typing import Any

from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.core.types.model import ModelRequest
from palinurus.providers.wire.history import (
    NO_IMAGE,
    NO_OUTPUT,
    OPENING,
    TOOL_GONE,
    CallIds,
    is_own_answer,
    is_sendable,
    list_used_tools,
    make_object_schema,
    make_safe_ids,
    make_tool_name,
)

VERSION = "2023-06-01"
MAX_OUTPUT = 32_000  # when nothing is asked for
_CHOICES: dict[str, str] = {"auto": "auto", "none": "none", "required": "any", "any": "any"}


def encode(request: ModelRequest) -> dict[str, Any]:
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
        tools = [_tool(t.name, t.description, t.parameters) for t in request.tools]
        if mark:
            tools[-1]["cache_control"] = mark
        body["tools"] = tools
        if request.tool_choice is not None:
            body["tool_choice"] = _choice(request.tool_choice)
    elif names := list_used_tools(request.messages):  # a history with calls is refused where no tool is defined
        body["tools"] = [_tool(name, TOOL_GONE, {}) for name in names]
        body["tool_choice"] = {"type": "none"}
    if mark:
        _mark_turns(messages, mark)
    temperature = params.get("temperature") if request.temperature is None else request.temperature
    if temperature is not None:
        body["temperature"] = temperature
    return body


def build_path(request: ModelRequest) -> str:
    """The tail of the URL; bases are written with and without the version."""
    base = request.model.base_url.rstrip("/")
    return "" if base.endswith("/messages") else "/messages" if base.endswith("/v1") else "/v1/messages"


def build_headers(request: ModelRequest) -> dict[str, str]:
    """The protocol version."""
    return {"anthropic-version": VERSION}


def _tool(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": make_object_schema(parameters)}


def _mark(params: dict[str, Any]) -> dict[str, Any] | None:
    keep = params.get("cacheRetention", "short")
    if keep == "none":
        return None
    return {"type": "ephemeral", "ttl": "1h"} if keep == "long" else {"type": "ephemeral"}


def _system(request: ModelRequest, mark: dict[str, Any] | None) -> list[dict[str, Any]]:
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


def _messages(request: ModelRequest) -> list[dict[str, Any]]:
    """Turns alternate: what follows in the same role is joined. The first is the user's, results come first in one."""
    out: list[dict[str, Any]] = []
    ident = CallIds(make_safe_ids(64))
    for message in request.messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        content = _content(message, request, ident)
        if not content:
            continue
        if not out and role == "assistant":
            out.append({"role": "user", "content": [{"type": "text", "text": OPENING}]})
        if out and out[-1]["role"] == role:
            out[-1]["content"] += content
        else:
            out.append({"role": role, "content": content})
    for turn in out:
        if turn["role"] == "user":
            turn["content"].sort(key=lambda block: block["type"] != "tool_result")
    return out or [{"role": "user", "content": [{"type": "text", "text": OPENING}]}]


def _content(
    message: UserMessage | AssistantMessage | ToolResult, request: ModelRequest, ident: CallIds
) -> list[dict[str, Any]]:
    vision = request.model.vision
    if isinstance(message, UserMessage):
        return _plain(message.blocks, vision)
    if isinstance(message, ToolResult):
        return _result(message, _plain(message.content, vision), ident)
    return _said(message, request, ident)


def _result(message: ToolResult, content: list[dict[str, Any]], ident: CallIds) -> list[dict[str, Any]]:
    """The result; pictures of one that failed stand behind it, because an error may hold text only."""
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": ident(message.toolCallId)}
    beside: list[dict[str, Any]] = []
    if message.isError:
        beside = [part for part in content if part["type"] == "image"]
        content = [part for part in content if part["type"] == "text"]
        block["is_error"] = True
    block["content"] = content or [{"type": "text", "text": NO_OUTPUT}]
    return [block, *beside]


def _plain(blocks: tuple[TextBlock | ImageBlock, ...], vision: bool) -> list[dict[str, Any]]:
    """Blank text is refused by the protocol and therefore left out."""
    out: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            if block.text and not block.text.isspace():
                out.append({"type": "text", "text": block.text})
        elif vision and is_sendable(block):
            source = {"type": "base64", "media_type": block.mimeType, "data": block.data}
            out.append({"type": "image", "source": source})
        else:
            out.append({"type": "text", "text": NO_IMAGE})
    return out


def _said(message: AssistantMessage, request: ModelRequest, ident: CallIds) -> list[dict[str, Any]]:
    same = is_own_answer(message, request.model)
    out: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            if block.text and not block.text.isspace():
                out.append({"type": "text", "text": block.text})
        elif isinstance(block, ToolCall):
            use = {
                "type": "tool_use",
                "id": ident(block.id),
                "name": make_tool_name(block.name),
                "input": block.arguments,
            }
            out.append(use)
        elif isinstance(block, ThinkingBlock) and same and (signature := (block.thinkingSignature or "").strip()):
            if block.redacted:
                out.append({"type": "redacted_thinking", "data": signature})
            else:
                out.append({"type": "thinking", "thinking": block.thinking, "signature": signature})
    return out if any(b["type"] in ("text", "tool_use") for b in out) else []
