"""The Messages API: turns, tool_use and tool_result, thinking and its signatures, cache marks."""

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

_MEDIA = ("image/jpeg", "image/png", "image/gif", "image/webp")
_THOUGHTS = ("thinking", "redacted_thinking")


def check_anthropic(body: dict[str, Any]) -> list[str]:
    """Why the API would refuse this body."""
    return [*_head(body), *_tools(body), *_turns(body), *_thinking(body), *_marks(body)]


def _head(body: dict[str, Any]) -> Iterator[str]:
    if is_blank(body.get("model")):
        yield "model: required"
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        yield "max_tokens: must be at least 1"
    for block in body.get("system") or ():
        if block.get("type") != "text" or is_blank(block.get("text")):
            yield "system: text content blocks must be non-empty"


def _tools(body: dict[str, Any]) -> Iterator[str]:
    tools = body.get("tools") or []
    for number, tool in enumerate(tools):
        yield from check_name(f"tools.{number}", tool.get("name"))
        yield from check_tool_schema(f"tools.{number}.input_schema", tool.get("input_schema"))
    yield from check_unique("tools", [tool.get("name") for tool in tools])
    if body.get("tool_choice") is not None and not tools:
        yield "tool_choice: may only be given with tools"
    used = any(block.get("type") in ("tool_use", "tool_result") for block in _blocks(body))
    if used and not tools:
        yield "tools: a history with tool_use or tool_result must define tools"


def _blocks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for message in body.get("messages", ()):
        yield from message["content"] if isinstance(message["content"], list) else ()


def _turns(body: dict[str, Any]) -> Iterator[str]:
    messages = body.get("messages")
    if not messages:
        yield "messages: at least one message is required"
        return
    if messages[-1]["role"] != "user":
        yield "the conversation must end with a user message"
    owed: list[str] = []
    used: list[str] = []
    for number, message in enumerate(messages):
        where = f"messages.{number}"
        if message["role"] != ("assistant" if number % 2 else "user"):
            yield f"{where}: roles must alternate, beginning with user"
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not content:
            yield f"{where}: must have non-empty content"
        answered = [b.get("tool_use_id") for b in content if b.get("type") == "tool_result"]
        if sorted(map(str, answered)) != sorted(owed):
            yield f"{where}: tool_use ids {owed} need tool_result blocks immediately after, found {answered}"
        if answered and any(b.get("type") != "tool_result" for b in content[: len(answered)]):
            yield f"{where}: tool_result blocks must come first"
        owed = [str(b.get("id")) for b in content if b.get("type") == "tool_use"]
        used += owed
        for block in content:
            yield from _block(where, message["role"], block)
    if owed:
        yield f"tool_use ids {owed} were found without tool_result blocks"
    yield from check_unique("tool_use ids", used)


def _block(where: str, role: str, block: dict[str, Any]) -> Iterator[str]:
    kind = block.get("type")
    allowed = ("text", "image", "tool_result") if role == "user" else ("text", "tool_use", *_THOUGHTS)
    if kind not in allowed:
        yield f"{where}: {kind} is not allowed for {role}"
    elif kind == "text" and is_blank(block.get("text")):
        yield f"{where}: text content blocks must contain non-whitespace text"
    elif kind == "image":
        yield from _image(where, block)
    elif kind == "tool_use":
        yield from check_name(where, block.get("name"))
        yield from check_name(f"{where}.id", block.get("id"), IDENT)
        if not isinstance(block.get("input"), dict):
            yield f"{where}: input must be a dictionary"
    elif kind == "tool_result":
        yield from _result(where, block)
    elif kind == "thinking" and (is_blank(block.get("signature")) or not isinstance(block.get("thinking"), str)):
        yield f"{where}: thinking needs its signature"
    elif kind == "redacted_thinking" and is_blank(block.get("data")):
        yield f"{where}: redacted_thinking needs its data"


def _image(where: str, block: dict[str, Any]) -> Iterator[str]:
    source = block.get("source") or {}
    if source.get("media_type") not in _MEDIA:
        yield f"{where}: media type {source.get('media_type')!r} is not supported"
    yield from check_base64(where, source.get("data"))


def _result(where: str, block: dict[str, Any]) -> Iterator[str]:
    content = block.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if block.get("is_error") and not content:
        yield f"{where}: content cannot be empty if is_error is true"
    for inner in content or ():
        if inner.get("type") == "image":
            if block.get("is_error"):
                yield f"{where}: all content must be text if is_error is true"
            yield from _image(where, inner)
        elif inner.get("type") != "text" or is_blank(inner.get("text")):
            yield f"{where}: text content blocks must be non-empty"


def _thinking(body: dict[str, Any]) -> Iterator[str]:
    mode = (body.get("thinking") or {}).get("type", "disabled")
    if mode == "disabled":
        return
    if body.get("temperature") not in (None, 1):
        yield "temperature may only be set to 1 when thinking is enabled"
    if (body.get("tool_choice") or {}).get("type", "auto") not in ("auto", "none"):
        yield "thinking may not be enabled when tool_choice forces tool use"
    if mode != "enabled":
        return
    budget = body["thinking"].get("budget_tokens", 0)
    if budget < 1024 or budget >= body.get("max_tokens", 0):
        yield "thinking.budget_tokens must be at least 1024 and less than max_tokens"
    messages = body.get("messages") or []
    last = messages[-1] if messages else {}
    if len(messages) > 1 and any(b.get("type") == "tool_result" for b in last["content"] if isinstance(b, dict)):
        before = messages[-2]["content"]
        if before[0].get("type") not in _THOUGHTS:
            yield "expected thinking, found tool_use: the final assistant message must start with a thinking block"


def _marks(body: dict[str, Any]) -> Iterator[str]:
    blocks = [*(body.get("system") or ()), *(body.get("tools") or ()), *_blocks(body)]
    marked = [block for block in blocks if "cache_control" in block]
    if len(marked) > 4:
        yield f"cache_control: at most 4 blocks may carry it, found {len(marked)}"
    if any(block.get("type") in _THOUGHTS for block in marked):
        yield "cache_control: not allowed on thinking blocks"
