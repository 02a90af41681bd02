"""A request as an Ollama chat body. Calls carry their arguments as objects; pictures are bare base64."""

from __future__ import annotations

from typing import Any

from palinurus.core.types.messages import Assistant, Image, Message, ToolResult, User
from palinurus.core.types.model import Request
from palinurus.core.types.tool import ToolSpec
from palinurus.providers.wire.replay import NO_OUTPUT, SEE_IMAGE, texts

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


def path(request: Request) -> str:
    return "/api/chat"


def encode(request: Request) -> dict[str, Any]:
    """The body, without what is the vendor's: `think`."""
    model = request.model
    messages: list[dict[str, Any]] = []
    if request.prompt.text:
        messages.append({"role": "system", "content": request.prompt.text})
    for message in request.messages:
        messages += _messages(message, request)
    body: dict[str, Any] = {
        "model": model.ref.model,
        "messages": messages,
        "stream": True,
        "options": _options(request),
    }
    if request.tools and request.tool_choice != "none":
        body["tools"] = [_tool(spec) for spec in request.tools]
    if "keep_alive" in model.params:
        body["keep_alive"] = model.params["keep_alive"]
    return body


def _options(request: Request) -> dict[str, Any]:
    model = request.model
    options: dict[str, Any] = {"num_ctx": min(model.context_window, MOST_CONTEXT)}
    options.update({key: model.params[key] for key in _OPTIONS if key in model.params})
    if request.max_tokens is not None:
        options["num_predict"] = request.max_tokens
    if request.temperature is not None:
        options["temperature"] = request.temperature
    return options


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


def _messages(message: Message, request: Request) -> list[dict[str, Any]]:
    vision = request.model.vision
    if isinstance(message, User):
        return [_pictured({"role": "user", "content": texts(message.blocks, vision)}, message.blocks, vision)]
    if isinstance(message, ToolResult):
        return _result(message, vision)
    return _answer(message, request)


def _pictured(message: dict[str, Any], blocks: tuple[Any, ...], vision: bool) -> dict[str, Any]:
    pictures = [block.data for block in blocks if isinstance(block, Image)] if vision else []
    return {**message, "images": pictures} if pictures else message


def _result(result: ToolResult, vision: bool) -> list[dict[str, Any]]:
    pictures = vision and any(isinstance(block, Image) for block in result.content)
    text = texts(result.content, vision) or (SEE_IMAGE if pictures else NO_OUTPUT)
    found: list[dict[str, Any]] = [{"role": "tool", "content": text, "tool_name": result.toolName}]
    if pictures:  # only user messages carry pictures
        found.append(_pictured({"role": "user", "content": SEE_IMAGE}, result.content, vision))
    return found


def _answer(message: Assistant, request: Request) -> list[dict[str, Any]]:
    model = request.model
    found: dict[str, Any] = {"role": "assistant", "content": message.text}
    same = message.same_route(model.api, model.ref.provider, model.ref.model)
    if same and message.calls and message.thinking:
        found["thinking"] = message.thinking  # wanted back only while a tool round is under way
    if message.calls:
        found["tool_calls"] = [{"function": {"name": c.name, "arguments": c.arguments}} for c in message.calls]
    return [found] if message.calls or message.text else []
