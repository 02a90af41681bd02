"""A request as a Converse body.

Rules of the API kept here: user and assistant take turns, starting with the user; no blank text; tool results stand in
the turn after their calls; a history with calls needs a tool configuration; signatures go back only to their route.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.core.types.model import ModelRequest
from palinurus.providers.wire import pick
from palinurus.providers.wire.history import (
    EMPTY_MESSAGE,
    NO_IMAGE,
    NO_OUTPUT,
    OPENING,
    TOOL_GONE,
    CallIds,
    is_own_answer,
    list_used_tools,
    make_object_schema,
    make_safe_ids,
    make_tool_name,
)

_FORMATS: dict[str, str] = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
}


def build_path(request: ModelRequest) -> str:
    """The model, quoted. Colons stay: the HTTP client would put them back, and the signature covers what is sent."""
    return f"/model/{quote(request.model.ref.model, safe=':')}/converse-stream"


def build_headers(request: ModelRequest) -> dict[str, str]:
    return {"accept": "application/vnd.amazon.eventstream"}


def encode(request: ModelRequest) -> dict[str, Any]:
    """The body, without what is the vendor's: additionalModelRequestFields, cache points."""
    body: dict[str, Any] = {"messages": build_turns(request)}
    system = [{"text": text} for text in (request.prompt.stable, request.prompt.volatile) if text.strip()]
    if system:
        body["system"] = system
    config: dict[str, Any] = {}
    if request.max_tokens is not None:
        config["maxTokens"] = request.max_tokens
    if request.temperature is not None:
        config["temperature"] = request.temperature
    if config:
        body["inferenceConfig"] = config
    tools = _tools(request)
    if tools:
        body["toolConfig"] = {"tools": tools}
        choice = _choice(request.tool_choice) if request.tools and request.model.tools else None
        if choice:
            body["toolConfig"]["toolChoice"] = choice
    return body


def _tools(request: ModelRequest) -> list[dict[str, Any]]:
    if request.tools and request.model.tools and request.tool_choice != "none":
        return [_spec(tool.name, tool.description, tool.parameters) for tool in request.tools]
    return [_spec(name, TOOL_GONE, {}) for name in list_used_tools(request.messages)]


def _spec(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "toolSpec": {
            "name": name,
            "description": description or name,
            "inputSchema": {"json": make_object_schema(parameters)},
        }
    }


def _choice(choice: str | dict[str, Any] | None) -> dict[str, Any] | None:
    if choice is None or choice == "none":
        return None
    if isinstance(choice, str):
        return {"any": {}} if choice in ("required", "any") else {"auto": {}}
    name = pick.get_text(choice, "function", "name") or pick.get_text(choice, "name")
    return {"tool": {"name": name}} if name else {"auto": {}}


def build_turns(request: ModelRequest) -> list[dict[str, Any]]:
    """The conversation in alternating turns."""
    found: list[dict[str, Any]] = []
    ident = CallIds(make_safe_ids(64))
    for message in request.messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = _blocks(message, request, ident)
        if not blocks:
            continue
        if not found and role == "assistant":
            found.append({"role": "user", "content": [{"text": OPENING}]})
        if found and found[-1]["role"] == role:
            found[-1]["content"] += blocks
        else:
            found.append({"role": role, "content": blocks})
    for turn in found:
        if turn["role"] == "user":
            turn["content"].sort(key=lambda block: "toolResult" not in block)
    return found or [{"role": "user", "content": [{"text": OPENING}]}]


def _blocks(message: Message, request: ModelRequest, ident: CallIds) -> list[dict[str, Any]]:
    if isinstance(message, UserMessage):
        return _shown(message.blocks, request.model.vision) or [{"text": EMPTY_MESSAGE}]
    if isinstance(message, ToolResult):
        result = {
            "toolUseId": ident(message.toolCallId),
            "content": _shown(message.content, request.model.vision) or [{"text": NO_OUTPUT}],
            "status": "error" if message.isError else "success",
        }
        return [{"toolResult": result}]
    return _answer(message, request, ident)


def _shown(blocks: tuple[TextBlock | ImageBlock, ...], vision: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            if block.text.strip():
                found.append({"text": block.text})
        elif vision and block.data and block.mimeType in _FORMATS:
            found.append({"image": {"format": _FORMATS[block.mimeType], "source": {"bytes": block.data}}})
        else:
            found.append({"text": NO_IMAGE})
    return found


def _answer(message: AssistantMessage, request: ModelRequest, ident: CallIds) -> list[dict[str, Any]]:
    same = is_own_answer(message, request.model)
    found: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            if block.text.strip():
                found.append({"text": block.text})
        elif isinstance(block, ToolCall):
            use = {"toolUseId": ident(block.id), "name": make_tool_name(block.name), "input": block.arguments}
            found.append({"toolUse": use})
        elif same and (thought := _thought(block)):
            found.append(thought)
    return found if any("reasoningContent" not in block for block in found) else []


def _thought(block: ThinkingBlock) -> dict[str, Any] | None:
    signature = (block.thinkingSignature or "").strip()
    if not signature:
        return None
    if block.redacted:
        return {"reasoningContent": {"redactedContent": signature}}
    if not block.thinking.strip():
        return None
    return {"reasoningContent": {"reasoningText": {"text": block.thinking, "signature": signature}}}
