"""Chat Completions: assistant tool_calls and the tool messages that follow, ids, names; and what single vendors add."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from palinurus.testing.validators.shape import (
    check_base64,
    check_json_arguments,
    check_name,
    check_tool_schema,
    check_unique,
    is_blank,
)

_IDENT = re.compile(r"[A-Za-z0-9_-]{1,40}")
_NINE = re.compile(r"[A-Za-z0-9]{9}")
_URL = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,(.*)", re.S)


def check_completions(body: dict[str, Any]) -> list[str]:
    """Why the API would refuse this body."""
    return [*_tools(body), *_messages(body)]


def _tools(body: dict[str, Any]) -> Iterator[str]:
    tools = body.get("tools")
    if tools is not None and not tools:
        yield "tools: [] is too short"
    for number, tool in enumerate(tools or ()):
        yield from check_name(f"tools[{number}]", tool["function"].get("name"))
        yield from check_tool_schema(f"tools[{number}]", tool["function"].get("parameters"))
    yield from check_unique("tools", [tool["function"].get("name") for tool in tools or ()])
    if body.get("tool_choice") is not None and not tools:
        yield "tool_choice: only allowed when tools are specified"


def _messages(body: dict[str, Any]) -> Iterator[str]:
    messages = body.get("messages")
    if not messages:
        yield "messages: [] is too short"
        return
    owed: list[str] = []
    for number, message in enumerate(messages):
        where = f"messages[{number}]"
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in owed:
                yield f"{where}: a tool message must follow the tool_calls it answers"
            else:
                owed.remove(message["tool_call_id"])
            if is_blank(message.get("content")):
                yield f"{where}: a tool message needs content"
            continue
        if owed:
            yield f"{where}: tool_calls must be followed by tool messages; missing {owed}"
        owed = [str(call.get("id")) for call in message.get("tool_calls") or ()]
        yield from check_unique(where, owed)
        if role in ("system", "developer"):
            if number:
                yield f"{where}: {role} must be the first message"
        elif role == "user":
            yield from _user(where, message.get("content"))
        elif role == "assistant":
            yield from _assistant(where, message)
        else:
            yield f"{where}: unknown role {role!r}"
    if owed:
        yield f"tool_calls without tool messages: {owed}"


def _user(where: str, content: Any) -> Iterator[str]:
    parts: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    if not parts:
        yield f"{where}: empty content"
    for part in parts:
        if part.get("type") == "text":
            if is_blank(part.get("text")):
                yield f"{where}: empty text"
        elif part.get("type") == "image_url":
            found = _URL.fullmatch(str(part["image_url"].get("url")))
            yield from check_base64(where, found[2]) if found else (f"{where}: unsupported image",)
        else:
            yield f"{where}: unknown part {part.get('type')!r}"


def _assistant(where: str, message: dict[str, Any]) -> Iterator[str]:
    calls = message.get("tool_calls")
    if calls is not None and not calls:
        yield f"{where}: tool_calls: [] is too short"
    if is_blank(message.get("content")) and not calls:
        yield f"{where}: content is required unless tool_calls is given"
    for call in calls or ():
        yield from check_name(f"{where}.id", call.get("id"), _IDENT)
        yield from check_name(where, call["function"].get("name"))
        yield from check_json_arguments(where, call["function"].get("arguments"))
        if call.get("type") != "function":
            yield f"{where}: a call has type function"


def check_mistral(body: dict[str, Any]) -> list[str]:
    """Ids of exactly nine letters and digits; no stream_options; the last message is the user's or a tool's."""
    out: list[str] = []
    for message in body["messages"]:
        idents = [call["id"] for call in message.get("tool_calls") or ()]
        idents += [message["tool_call_id"]] if "tool_call_id" in message else []
        out += [f"tool call id {i!r} must be nine letters or digits" for i in idents if not _NINE.fullmatch(i)]
    if body["messages"] and body["messages"][-1]["role"] not in ("user", "tool"):
        out.append("expected last role user or tool")
    return out + [f"{field}: extra inputs are not permitted" for field in ("stream_options", "store") if field in body]


def check_deepseek(body: dict[str, Any]) -> list[str]:
    """While thinking every earlier answer has reasoning_content; without thinking none has."""
    mode = (body.get("thinking") or {}).get("type")
    said = [m for m in body["messages"] if m["role"] == "assistant"]
    if mode == "enabled" and any("reasoning_content" not in m for m in said):
        return ["the reasoning_content in the thinking mode must be passed back to the API"]
    if mode == "disabled" and any("reasoning_content" in m for m in said):
        return ["reasoning_content is not taken without thinking"]
    return []


def check_moonshot(body: dict[str, Any]) -> list[str]:
    """While thinking a tool may not be forced."""
    on = (body.get("thinking") or {}).get("type") == "enabled"
    forced = body.get("tool_choice", "auto") not in ("auto", "none")
    return ["tool_choice is incompatible with thinking enabled"] if on and forced else []
