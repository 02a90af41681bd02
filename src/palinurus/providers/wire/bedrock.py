"""Amazon Bedrock's ConverseStream: a request as a body, the frames of the answer as events.

Rules of the API kept here: user and assistant take turns, starting with the user; no blank text; tool results stand in
the turn after their calls; a history with calls needs a tool configuration; signatures go back only to their route.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal
from urllib.parse import quote

from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
)
from palinurus.core.types.model import FailureKind, ModelRequest
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.errors import classify_stream_error, clip_message
from palinurus.providers.wire import ModelWire, SigningKeys, history, pick
from palinurus.providers.wire.aws import BedrockFrame, BedrockFrameReader, SigningScope, parse_region, sign_headers
from palinurus.providers.wire.build import AnswerDecoder, BlockDraft
from palinurus.providers.wire.history import CallIds, make_tool_name

# --- the request ----------------------------------------------------------------------------------------------

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


def encode(request: ModelRequest) -> dict[str, Any]:
    """The body, without what is the vendor's: additionalModelRequestFields, cache points."""
    body: dict[str, Any] = {"messages": build_turns(request)}
    system = [_text(text) for text in (request.prompt.stable, request.prompt.volatile) if not history.is_blank(text)]
    if system:
        body["system"] = system
    config = history.read_sampling(request).name("maxTokens", "temperature", "topP")
    config |= history.read_controls(request)
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


# --- the answer -----------------------------------------------------------------------------------------------

STOPS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "toolUse",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
REFUSED = frozenset({"guardrail_intervened", "content_filtered"})
# Exceptions that come as frames, by the beginning of their name in lower case.
EXCEPTIONS: tuple[tuple[str, FailureKind], ...] = (
    ("throttling", "rate_limit"),
    ("servicequota", "rate_limit"),
    ("serviceunavailable", "overloaded"),
    ("modelnotready", "overloaded"),
    ("modeltimeout", "timeout"),
    ("accessdenied", "auth"),
    ("unrecognizedclient", "auth"),
    ("expiredtoken", "auth"),
    ("resourcenotfound", "not_found"),
    ("validation", "format"),
    ("modelstreamerror", "server"),
    ("modelerror", "server"),
    ("internalserver", "server"),
)


class BedrockDecoder(AnswerDecoder[BedrockFrame]):
    """One answer: complete with its metadata, or when the stream ends after the stop."""

    __slots__ = ("_metered", "_parts")

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request, BedrockFrameReader())
        self._parts: dict[int, BlockDraft] = {}
        self._metered = False

    def _take(self, piece: BedrockFrame) -> None:
        kind = piece.headers.get(":message-type", "event")
        payload = pick.read_object(piece.payload) or {}
        if kind != "event":
            name = piece.headers.get(":exception-type") or piece.headers.get(":error-code") or kind
            message = pick.get_text(payload, "message") or piece.headers.get(":error-message", "")
            self._refuse(name, message)
            return
        name = piece.headers.get(":event-type", "")
        if name.lower().endswith("exception"):
            self._refuse(name, pick.get_text(payload, "message"))
        elif name in self._RULES:
            self._RULES[name](self, payload)

    def _refuse(self, name: str, message: str) -> None:
        low = name.lower().replace("_", "")
        kind: FailureKind | None = next((k for start, k in EXCEPTIONS if low.startswith(start)), None)
        failure = classify_stream_error(
            {"message": message or name, "code": "invalid_argument" if kind == "format" else ""}
        )
        if kind is None or kind == "format":
            self._builder.fail_with(failure)  # the words decide, such as a prompt that is too long
        else:
            self._builder.fail(kind, clip_message(message or name))

    # --- events ------------------------------------------------------------------------------------------------

    def _find(self, event: dict[str, Any], kind: Literal["text", "thinking", "redacted", "call"]) -> BlockDraft:
        """The block of this index; a new one where the index holds another kind."""
        index = pick.get_count(event, "contentBlockIndex")
        part = self._parts.get(index)
        if part is None or part.kind != kind:
            part = self._parts[index] = self._builder.part(kind)
        return part

    def _start(self, event: dict[str, Any]) -> None:
        use = pick.get_object(event, "start", "toolUse")
        if use:
            part = self._find(event, "call")
            if part.index < 0:
                self._builder.call(part, pick.get_text(use, "toolUseId"), pick.get_text(use, "name"))

    def _delta(self, event: dict[str, Any]) -> None:
        delta = pick.get_object(event, "delta")
        if piece := pick.get_text(delta, "text"):
            self._builder.grow(self._find(event, "text"), piece)
        elif piece := pick.get_text(delta, "toolUse", "input"):
            self._builder.grow(self._find(event, "call"), piece)
        elif thought := pick.get_object(delta, "reasoningContent"):
            self._thought(event, thought)

    def _thought(self, event: dict[str, Any], thought: dict[str, Any]) -> None:
        if opaque := pick.get_text(thought, "redactedContent"):
            part = self._find(event, "redacted")
            part.signature = (part.signature or "") + opaque
            return
        part = self._find(event, "thinking")
        if piece := pick.get_text(thought, "text"):
            self._builder.grow(part, piece)
        if signature := pick.get_text(thought, "signature"):
            part.signature = (part.signature or "") + signature

    def _stopped(self, event: dict[str, Any]) -> None:
        self._stop = self._stop or pick.get_text(event, "stopReason") or "end_turn"
        if self._metered:
            self._end()

    def _metadata(self, event: dict[str, Any]) -> None:
        self._metered = True
        self._builder.usage = read_usage(pick.get_object(event, "usage"))
        if self._stop:
            self._end()

    def _end(self) -> None:
        stop = self._stop or ""
        if stop in REFUSED:
            self._builder.fail("refused", f"the provider stopped the answer ({stop})")
        else:
            self._builder.finish(STOPS.get(stop, "stop"))

    _RULES: ClassVar[dict[str, Callable[[BedrockDecoder, dict[str, Any]], None]]] = {
        "contentBlockStart": _start,
        "contentBlockDelta": _delta,
        "messageStop": _stopped,
        "metadata": _metadata,
    }


def read_usage(used: dict[str, Any]) -> TokenUsage:
    """Cached tokens are counted apart from input, as ours are."""
    plain, output = pick.get_count(used, "inputTokens"), pick.get_count(used, "outputTokens")
    read, write = pick.get_count(used, "cacheReadInputTokens"), pick.get_count(used, "cacheWriteInputTokens")
    return TokenUsage(plain, output, read, write, totalTokens=pick.get_count(used, "totalTokens"))


def sign_request(url: str, given: dict[str, str], body: bytes, signer: SigningKeys) -> dict[str, str]:
    """The headers of a signed request. Only what no proxy touches is signed beside the host and the date."""
    scope = SigningScope(parse_region(url, signer.region or "us-east-1"), "bedrock", signer.at)
    fixed = {name: value for name, value in given.items() if name.lower() == "content-type"}
    return sign_headers("POST", url, fixed, body, keys=signer, scope=scope)


WIRE = ModelWire(
    encode=encode,
    decoder=BedrockDecoder,
    path=build_path,
    headers=lambda request: {"accept": "application/vnd.amazon.eventstream"},
    whole=lambda body: body,  # there is no non-streamed form of this answer
    sign=sign_request,
)
