"""A request as an Ollama chat body. Calls carry their arguments as objects; pictures are bare base64."""

from __future__ import annotations

from typing import Any

from palinurus.core.types.messages import AssistantMessage, ImageBlock, TextBlock, ToolResult, UserMessage
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.tool import ToolSpec
from palinurus.providers.wire.history import (
    EMPTY_MESSAGE,
    NO_OUTPUT,
    OPENING,
    SEE_IMAGE,
    is_own_answer,
    is_sendable,
    join_texts,
    make_object_schema,
    make_tool_name,
)

# The server's own default context is 4k and cuts silently. More than this is not asked for unless configured: the
# memory for the whole window is taken when the model is loaded.
MOST_CONTEXT = 32_768
_OPTIONS = (
    "num_ctx",
    "num_predict",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "repeat_penalty",
    "num_gpu",
    "num_thread",
)


def build_path(request: ModelRequest) -> str:
    return "/api/chat"


def encode(request: ModelRequest) -> dict[str, Any]:
    """The body, without what is the vendor's: `think`."""
    model = request.model
    body: dict[str, Any] = {
        "model": model.ref.model,
        "messages": build_history(request),
        "stream": True,
        "options": _options(request),
    }
    if request.tools and model.tools and request.tool_choice != "none":
        body["tools"] = [_tool(spec) for spec in request.tools]
    if "keep_alive" in model.params:
        body["keep_alive"] = model.params["keep_alive"]
    return body


def build_history(request: ModelRequest) -> list[dict[str, Any]]:
    """The prompt and the conversation."""
    vision = request.model.vision
    found: list[dict[str, Any]] = []
    if request.prompt.text:
        found.append({"role": "system", "content": request.prompt.text})
    names: dict[str, str] = {}  # call id -> tool, as it was called
    pictures: list[str] = []  # of tool results; only user messages carry them, and results stay together
    for message in request.messages:
        if isinstance(message, ToolResult):
            found.append(_result(message, vision, names))
            pictures += _pictures(message.content, vision)
            continue
        if pictures:
            found.append({"role": "user", "content": SEE_IMAGE, "images": pictures})
            pictures = []
        found += [_asked(message, vision)] if isinstance(message, UserMessage) else _answer(message, request, names)
    if pictures:
        found.append({"role": "user", "content": SEE_IMAGE, "images": pictures})
    if not any(message["role"] != "system" for message in found):
        found.append({"role": "user", "content": OPENING})
    return found


def _options(request: ModelRequest) -> dict[str, Any]:
    model = request.model
    options: dict[str, Any] = {"num_ctx": min(model.context_window, MOST_CONTEXT)}
    options.update({key: model.params[key] for key in _OPTIONS if key in model.params})
    if request.max_tokens is not None:
        options["num_predict"] = request.max_tokens
    if request.temperature is not None:
        options["temperature"] = request.temperature
    return options


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": make_object_schema(spec.parameters)}
    return {"type": "function", "function": function}


def _asked(message: UserMessage, vision: bool) -> dict[str, Any]:
    text, pictures = join_texts(message.blocks, vision), _pictures(message.blocks, vision)
    said: dict[str, Any] = {"role": "user", "content": text or ("" if pictures else EMPTY_MESSAGE)}
    return {**said, "images": pictures} if pictures else said


def _pictures(blocks: tuple[TextBlock | ImageBlock, ...], vision: bool) -> list[str]:
    return [block.data for block in blocks if isinstance(block, ImageBlock) and is_sendable(block)] if vision else []


def _result(result: ToolResult, vision: bool, names: dict[str, str]) -> dict[str, Any]:
    text = join_texts(result.content, vision) or (SEE_IMAGE if _pictures(result.content, vision) else NO_OUTPUT)
    name = names.get(result.toolCallId) or make_tool_name(result.toolName)
    return {"role": "tool", "content": text, "tool_name": name}


def _answer(message: AssistantMessage, request: ModelRequest, names: dict[str, str]) -> list[dict[str, Any]]:
    names.update({call.id: make_tool_name(call.name) for call in message.calls})
    found: dict[str, Any] = {"role": "assistant", "content": message.text if message.text.strip() else ""}
    if message.calls and message.thinking and is_own_answer(message, request.model):
        found["thinking"] = message.thinking  # wanted back only while a tool round is under way
    if message.calls:
        found["tool_calls"] = [{"function": {"name": names[c.id], "arguments": c.arguments}} for c in message.calls]
    return [found] if message.calls or found["content"] else []
