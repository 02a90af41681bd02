"""Request -> Messages body. Pure. Cache marks lie where the prefix is the same next time.

At most four marks are allowed: the last tool, the stable part of the system prompt, and the ends of the last two
user turns (the older one is where the previous request ended, so that a long batch of results still finds it).
How a level becomes thinking fields is the vendor's affair.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from palinurus.core.types.messages import AssistantMessage, ImageBlock, TextBlock, ThinkingBlock, ToolCall, ToolResult
from palinurus.core.types.model import ModelRequest
from palinurus.providers.wire import history
from palinurus.providers.wire.history import CallIds, make_tool_name

VERSION = "2023-06-01"
MAX_OUTPUT = 32_000  # when nothing is asked for


def encode(request: ModelRequest) -> dict[str, Any]:
    """The body, ready for JSON."""
    model, sampling = request.model, history.read_sampling(request)
    mark = _mark(model.params)
    messages = _messages(request)
    body: dict[str, Any] = {
        "model": model.ref.model,
        "max_tokens": sampling.max_tokens or min(model.max_tokens, MAX_OUTPUT),
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
    elif names := history.list_used_tools(request.messages):  # a history with calls is refused where no tool is defined
        body["tools"] = [_tool(name, history.TOOL_GONE, {}) for name in names]
        body["tool_choice"] = {"type": "none"}
    if mark:
        _mark_turns(messages, mark)
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    elif sampling.top_p is not None:  # newer models refuse the two together
        body["top_p"] = sampling.top_p
    return body


def build_path(request: ModelRequest) -> str:
    """The tail of the URL; bases are written with and without the version."""
    base = request.model.base_url.rstrip("/")
    return "" if base.endswith("/messages") else "/messages" if base.endswith("/v1") else "/v1/messages"


def build_headers(request: ModelRequest) -> dict[str, str]:
    """The protocol version."""
    return {"anthropic-version": VERSION}


def _tool(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": history.make_object_schema(parameters)}


def _mark(params: dict[str, Any]) -> dict[str, Any] | None:
    keep = params.get("cacheRetention", "short")
    if keep == "none":
        return None
    return {"type": "ephemeral", "ttl": "1h"} if keep == "long" else {"type": "ephemeral"}


def _system(request: ModelRequest, mark: dict[str, Any] | None) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    if request.prompt.stable.strip():
        out.append(_text(request.prompt.stable))
        if mark:
            out[0]["cache_control"] = mark
    if request.prompt.volatile.strip():
        out.append(_text(request.prompt.volatile))
    return out


def _mark_turns(messages: list[dict[str, Any]], mark: dict[str, Any]) -> None:
    users = [m for m in messages if m["role"] == "user"]
    for message in users[-2:]:
        message["content"][-1]["cache_control"] = mark


def _choice(choice: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(choice, dict) and "function" not in choice:
        return choice  # in this API's own form
    mode, name = history.read_tool_choice(choice)
    return {"type": mode, "name": name} if name else {"type": mode}


def _messages(request: ModelRequest) -> list[dict[str, Any]]:
    ident = CallIds(history.make_safe_ids(64))
    show = partial(history.show_blocks, vision=request.model.vision, text=_text, image=_image)
    return history.build_turns(
        request.messages,
        lambda message: show(message.blocks),
        lambda message: _result(message, show(message.content), ident),
        lambda message: _said(message, request, ident),
        opening=_text(history.OPENING),
        is_result=lambda block: block["type"] == "tool_result",
    )


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(image: ImageBlock) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": image.mimeType, "data": image.data}}


def _result(message: ToolResult, content: list[dict[str, Any]], ident: CallIds) -> list[dict[str, Any]]:
    """The result; pictures of one that failed stand behind it, because an error may hold text only."""
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": ident(message.toolCallId)}
    beside: list[dict[str, Any]] = []
    if message.isError:
        beside = [part for part in content if part["type"] == "image"]
        content = [part for part in content if part["type"] == "text"]
        block["is_error"] = True
    block["content"] = content or [_text(history.NO_OUTPUT)]
    return [block, *beside]


def _said(message: AssistantMessage, request: ModelRequest, ident: CallIds) -> list[dict[str, Any]]:
    same = history.is_own_answer(message, request.model)
    out: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            if not history.is_blank(block.text):
                out.append(_text(block.text))
        elif isinstance(block, ToolCall):
            use = {"id": ident(block.id), "name": make_tool_name(block.name), "input": block.arguments}
            out.append({"type": "tool_use", **use})
        elif isinstance(block, ThinkingBlock) and same and (signature := (block.thinkingSignature or "").strip()):
            if block.redacted:
                out.append({"type": "redacted_thinking", "data": signature})
            else:
                out.append({"type": "thinking", "thinking": block.thinking, "signature": signature})
    return out if any(b["type"] in ("text", "tool_use") for b in out) else []
