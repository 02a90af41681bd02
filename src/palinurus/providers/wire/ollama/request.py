"""A request as an Ollama chat body. Calls carry their arguments as objects; pictures are bare base64."""

from __future__ import annotations

from typing import Any

from palinurus.core.types.messages import AssistantMessage, ToolResult, UserMessage
from palinurus.core.types.model import ModelRequest
from palinurus.providers.wire import history
from palinurus.providers.wire.history import make_tool_name

# The server's own default context is 4k and cuts silently. More than this is not asked for unless configured: the
# memory for the whole window is taken when the model is loaded.
MOST_CONTEXT = 32_768
_OPTIONS = tuple(
    "num_ctx num_predict temperature top_p top_k min_p seed stop repeat_penalty num_gpu num_thread".split()
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
        body["tools"] = [history.describe_function(spec) for spec in request.tools]
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
    for message in history.gather_pictures(request.messages, vision):
        if isinstance(message, list):
            found.append({"role": "user", "content": history.SEE_IMAGE, "images": [image.data for image in message]})
        elif isinstance(message, ToolResult):
            found.append(_result(message, vision, names))
        else:
            found += [_asked(message, vision)] if isinstance(message, UserMessage) else _answer(message, request, names)
    if not any(message["role"] != "system" for message in found):
        found.append({"role": "user", "content": history.OPENING})
    return found


def _options(request: ModelRequest) -> dict[str, Any]:
    """The caller's word goes first, then the server's own words in params, then those every wire understands."""
    model, words = request.model, ("num_predict", "temperature", "top_p")
    options: dict[str, Any] = {"num_ctx": min(model.context_window, MOST_CONTEXT)}
    options |= history.read_sampling(request).name(*words)
    options |= {key: model.params[key] for key in _OPTIONS if key in model.params}
    return options | history.SamplingOptions(request.max_tokens, request.temperature, None).name(*words)


def _asked(message: UserMessage, vision: bool) -> dict[str, Any]:
    pictures = history.list_pictures(message.blocks) if vision else []
    text = history.join_texts(message.blocks, vision) or ("" if pictures else history.EMPTY_MESSAGE)
    said: dict[str, Any] = {"role": "user", "content": text}
    return {**said, "images": [image.data for image in pictures]} if pictures else said


def _result(result: ToolResult, vision: bool, names: dict[str, str]) -> dict[str, Any]:
    pictured = vision and history.list_pictures(result.content)
    text = history.join_texts(result.content, vision) or (history.SEE_IMAGE if pictured else history.NO_OUTPUT)
    name = names.get(result.toolCallId) or make_tool_name(result.toolName)
    return {"role": "tool", "content": text, "tool_name": name}


def _answer(message: AssistantMessage, request: ModelRequest, names: dict[str, str]) -> list[dict[str, Any]]:
    names.update({call.id: make_tool_name(call.name) for call in message.calls})
    found: dict[str, Any] = {"role": "assistant", "content": "" if history.is_blank(message.text) else message.text}
    if message.calls and message.thinking and history.is_own_answer(message, request.model):
        found["thinking"] = message.thinking  # wanted back only while a tool round is under way
    if message.calls:
        found["tool_calls"] = [{"function": {"name": names[c.id], "arguments": c.arguments}} for c in message.calls]
    return [found] if message.calls or found["content"] else []
