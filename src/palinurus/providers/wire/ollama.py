"""Ollama's native chat: a request as a body, a stream of JSON lines as events.

Calls carry their arguments as objects; pictures are bare base64.
"""

from __future__ import annotations

from typing import Any

from palinurus.core.types.messages import AssistantMessage, StopReason, ToolResult, UserMessage
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.usage import TokenUsage
from palinurus.providers import MOST_CONTEXT
from palinurus.providers.errors import classify_stream_error, clip_message
from palinurus.providers.wire import ModelWire, history, pick
from palinurus.providers.wire.arguments import write_arguments
from palinurus.providers.wire.build import AnswerDecoder
from palinurus.providers.wire.history import make_tool_name

# --- the request ----------------------------------------------------------------------------------------------

_OPTIONS = tuple(
    "num_ctx num_predict temperature top_p top_k min_p seed stop repeat_penalty num_gpu num_thread".split()
)


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
        body["tools"] = history.describe_functions(request.tools)
    if request.schema is not None:
        body["format"] = request.schema
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
    said = history.SamplingOptions(request.max_tokens, request.temperature, request.top_p).name(*words)
    return options | said | history.read_controls(request)


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


# --- the answer -----------------------------------------------------------------------------------------------

MAX_LINE = 8_000_000  # bytes
STOPS: dict[str, StopReason] = {"stop": "stop", "length": "length"}


def to_line(body: bytes) -> bytes:
    """A whole JSON answer as one line."""
    return body.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"


class OllamaLineReader:
    """Lines of JSON as a machine without I/O. Past the limit `failed` says so and nothing more comes out."""

    odd = b""
    __slots__ = ("_limit", "_pieces", "_size", "failed")

    def __init__(self, limit: int = MAX_LINE) -> None:
        self.failed: str | None = None
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines these bytes complete, without blank ones."""
        if self.failed is not None:
            return []
        *lines, rest = data.split(b"\n")
        out: list[bytes] = []
        for line in lines:
            if self._pieces:
                line = b"".join([*self._pieces, line])
                self._pieces.clear()
                self._size = 0
            if len(line) > self._limit:
                self.failed = f"a line of more than {self._limit} bytes"
                return out
            if line and not line.isspace():
                out.append(line)
        if rest:
            self._size += len(rest)
            self._pieces.append(rest)
            if self._size > self._limit:
                self.failed = f"a line of more than {self._limit} bytes"
        return out

    def close(self) -> list[bytes]:
        """The last line, if its end is missing."""
        return self.feed(b"\n") if self._pieces else []


class OllamaDecoder(AnswerDecoder[bytes]):
    """One answer. Its last line says so, so `_stop` is never set."""

    __slots__ = ()

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request, OllamaLineReader())

    def _take(self, piece: bytes) -> None:
        chunk = pick.read_object(piece)
        if chunk is None:
            if not self._closing:  # else half a line: cut, not malformed
                shown = clip_message(piece[:4096].decode("utf-8", "replace"))
                self._builder.fail("malformed", f"the stream holds a line that is no JSON object: {shown}")
            return
        if chunk.get("error"):
            self._builder.fail_with(classify_stream_error(chunk["error"]))
            return
        message = pick.get_object(chunk, "message")
        if text := pick.get_text(message, "thinking"):
            self._builder.thinking(text)
        if text := pick.get_text(message, "content"):
            self._builder.text(text)
        for call in pick.get_objects(message, "tool_calls"):
            self._call(call)
        if chunk.get("done") is True:
            self._builder.usage = read_usage(chunk)
            self._builder.finish(STOPS.get(pick.get_text(chunk, "done_reason"), "stop"))

    def _call(self, call: dict[str, Any]) -> None:
        function = pick.get_object(call, "function")
        part = self._builder.part("call")
        self._builder.call(part, pick.get_text(call, "id"), pick.get_text(function, "name"))
        self._builder.grow(part, write_arguments(function.get("arguments")))


def read_usage(chunk: dict[str, Any]) -> TokenUsage:
    """The server counts only tokens it evaluated; what its cache held it does not say."""
    return TokenUsage(pick.get_count(chunk, "prompt_eval_count"), pick.get_count(chunk, "eval_count"))


WIRE = ModelWire(encode=encode, decoder=OllamaDecoder, path=lambda request: "/api/chat", whole=to_line)
