"""A request as a Converse body.

Rules of the API kept here: user and assistant take turns, starting with the user; no blank text; tool results stand in
the turn after their calls; a history with calls needs a tool configuration; signatures go back only to their route.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote

from palinurus.core.types.messages import AssistantMessage, ImageBlock, TextBlock, ThinkingBlock, ToolCall, ToolResult
from palinurus.core.types.model import ModelRequest
from palinurus.providers.wire import history
from palinurus.providers.wire.history import CallIds, make_tool_name

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
    system = [_text(text) for text in (request.prompt.stable, request.prompt.volatile) if not history.is_blank(text)]
    if system:
        body["system"] = system
    config = history.read_sampling(request).name("maxTokens", "temperature", "topP")
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
    return [_spec(name, history.TOOL_GONE, {}) for name in history.list_used_tools(request.messages)]


def _spec(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "toolSpec": {
            "name": name,
            "description": description or name,
            "inputSchema": {"json": history.make_object_schema(parameters)},
        }
    }


def _choice(choice: str | dict[str, Any] | None) -> dict[str, Any] | None:
    mode, name = history.read_tool_choice(choice or "none")
    return {mode: {"name": name} if name else {}} if mode != "none" else None


def build_turns(request: ModelRequest) -> list[dict[str, Any]]:
    """The conversation in alternating turns."""
    ident = CallIds(history.make_safe_ids(64))
    show = partial(history.show_blocks, vision=request.model.vision, text=_text, image=_image, kinds=tuple(_FORMATS))
    return history.build_turns(
        request.messages,
        lambda message: show(message.blocks) or [_text(history.EMPTY_MESSAGE)],
        lambda message: [_result(message, show(message.content), ident)],
        lambda message: _answer(message, request, ident),
        opening=_text(history.OPENING),
        is_result=lambda block: "toolResult" in block,
    )


def _text(text: str) -> dict[str, Any]:
    return {"text": text}


def _image(image: ImageBlock) -> dict[str, Any]:
    return {"image": {"format": _FORMATS[image.mimeType], "source": {"bytes": image.data}}}


def _result(message: ToolResult, content: list[dict[str, Any]], ident: CallIds) -> dict[str, Any]:
    result = {
        "toolUseId": ident(message.toolCallId),
        "content": content or [_text(history.NO_OUTPUT)],
        "status": "error" if message.isError else "success",
    }
    return {"toolResult": result}


def _answer(message: AssistantMessage, request: ModelRequest, ident: CallIds) -> list[dict[str, Any]]:
    same = history.is_own_answer(message, request.model)
    found: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            if not history.is_blank(block.text):
                found.append(_text(block.text))
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
    if history.is_blank(block.thinking):
        return None
    return {"reasoningContent": {"reasoningText": {"text": block.thinking, "signature": signature}}}
