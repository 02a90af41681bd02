"""Google's Gemini API (streamGenerateContent): a request as a body, the stream as events.

Rules of the API kept here: user and model take turns, the first turn is the user's; every function response stands in
the turn after its calls; ids are letters and digits; thought signatures are base64 and go back only to their route. The
protocol has no last event: the answer is complete when the stream ends after a finishReason.
"""

from __future__ import annotations

from functools import partial
from typing import Any
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
from palinurus.core.types.tool import ToolSpec
from palinurus.core.types.usage import TokenUsage
from palinurus.patterns import compile_late
from palinurus.providers.errors import classify_stream_error, clip_message
from palinurus.providers.wire import ModelWire, history, pick
from palinurus.providers.wire.arguments import write_arguments
from palinurus.providers.wire.build import BlockDraft, SseDecoder
from palinurus.providers.wire.history import CallIds, make_tool_name
from palinurus.providers.wire.sse import Event

# --- the request ----------------------------------------------------------------------------------------------

_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
# What the API's documentation names for calls whose signature nobody has, such as those of another model.
UNSIGNED = "skip_thought_signature_validator"
_BASE64 = compile_late(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_ALNUM = compile_late(r"[A-Za-z0-9]{1,64}")
_SIGNING = compile_late(r"(models/)?gemini-([3-9]|\d{2,})")  # generations that demand signatures on calls


def build_path(request: ModelRequest) -> str:
    """The model is part of the address."""
    return f"/models/{quote(request.model.ref.model.removeprefix('models/'), safe='')}:streamGenerateContent?alt=sse"


def encode(request: ModelRequest) -> dict[str, Any]:
    """The body, without what is the vendor's: thinkingConfig."""
    body: dict[str, Any] = {"contents": build_contents(request)}
    if request.prompt.text:
        body["systemInstruction"] = {"parts": [{"text": request.prompt.text}]}
    if request.tools and request.model.tools:
        body["tools"] = [{"functionDeclarations": [_tool(spec) for spec in request.tools]}]
        if request.tool_choice is not None:
            body["toolConfig"] = {"functionCallingConfig": _choice(request.tool_choice)}
    config = history.read_sampling(request).name("maxOutputTokens", "temperature", "topP")
    config |= history.read_controls(request)
    if config:
        body["generationConfig"] = config
    return body


def _tool(spec: ToolSpec) -> dict[str, Any]:
    schema = history.make_object_schema(spec.parameters)
    return {"name": spec.name, "description": spec.description, "parametersJsonSchema": schema}


def _choice(choice: str | dict[str, Any]) -> dict[str, Any]:
    mode, name = history.read_tool_choice(choice)
    return {"mode": "ANY", "allowedFunctionNames": [name]} if name else {"mode": mode.upper()}


def build_contents(request: ModelRequest) -> list[dict[str, Any]]:
    """The conversation in alternating turns."""
    idents = CallIds(make_call_id)
    turns = history.build_turns(
        request.messages,
        lambda message: _shown(message.blocks, request.model.vision),
        lambda message: _response(message, request, idents),
        lambda message: _answer(message, request, idents),
        opening=_text(history.OPENING),
        is_result=lambda part: "functionResponse" in part,
    )
    return [{"role": "user" if t["role"] == "user" else "model", "parts": t["content"]} for t in turns]


def _text(text: str) -> dict[str, Any]:
    return {"text": text}


def _image(image: ImageBlock) -> dict[str, Any]:
    return {"inlineData": {"mimeType": image.mimeType, "data": image.data}}


_shown = partial(history.show_blocks, text=_text, image=_image, kinds=_IMAGES)


def _response(result: ToolResult, request: ModelRequest, idents: CallIds) -> list[dict[str, Any]]:
    pictures = tuple(b for b in result.content if isinstance(b, ImageBlock)) if request.model.vision else ()
    text = history.join_texts(tuple(b for b in result.content if b not in pictures), False)
    response = {
        "id": idents(result.toolCallId),
        "name": idents.names.get(result.toolCallId) or make_tool_name(result.toolName),
        "response": {
            "error" if result.isError else "output": text or (history.SEE_IMAGE if pictures else history.NO_OUTPUT)
        },
    }
    return [{"functionResponse": response}, *_shown(pictures, True)]


def _answer(message: AssistantMessage, request: ModelRequest, idents: CallIds) -> list[dict[str, Any]]:
    model = request.model
    same = history.is_own_answer(message, model)
    found: list[dict[str, Any]] = []
    called = False
    for block in message.content:
        if isinstance(block, TextBlock):
            if not history.is_blank(block.text):
                found.append(_signed({"text": block.text}, block.textSignature, same))
        elif isinstance(block, ThinkingBlock):
            if same and not history.is_blank(block.thinking):
                found.append(_signed({"thought": True, "text": block.thinking}, block.thinkingSignature, same))
        else:
            part = _signed(_call(block, idents), block.thoughtSignature, same)
            if not called and "thoughtSignature" not in part and _SIGNING.match(model.ref.model.lower()):
                part["thoughtSignature"] = UNSIGNED
            called = True
            found.append(part)
    return found if any("thought" not in part for part in found) else []


def _call(call: ToolCall, idents: CallIds) -> dict[str, Any]:
    name = idents.names[call.id] = make_tool_name(call.name)
    return {"functionCall": {"id": idents(call.id), "name": name, "args": call.arguments}}


def _signed(part: dict[str, Any], signature: str | None, same: bool) -> dict[str, Any]:
    if same and signature and _BASE64.fullmatch(signature):
        part["thoughtSignature"] = signature
    return part


def make_call_id(raw: str) -> str:
    """Letters and digits only, the same for the same id."""
    return raw if _ALNUM.fullmatch(raw) else f"call{history.digest_id(raw)[:24]}"


# --- the answer -----------------------------------------------------------------------------------------------

STOPS: dict[str, StopReason] = {"STOP": "stop", "MAX_TOKENS": "length", "FINISH_REASON_UNSPECIFIED": "stop"}
REFUSED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "LANGUAGE")
MALFORMED = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS")


class GeminiDecoder(SseDecoder):
    """One answer."""

    __slots__ = ("_part", "_why")

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request)
        self._part: BlockDraft | None = None  # the text or thinking that grows
        self._why = ""

    def _take(self, piece: Event) -> None:
        chunk = pick.read_object(piece[1])
        if chunk is None:
            self._refuse_chunk(piece[1])
            return
        self._seen = True
        if chunk.get("error"):
            self._builder.fail_with(classify_stream_error(chunk["error"]))
            return
        if chunk.get("usageMetadata") is not None:
            self._builder.usage = read_usage(pick.get_object(chunk, "usageMetadata"))
        if blocked := pick.get_text(chunk, "promptFeedback", "blockReason"):
            self._builder.fail("refused", f"the provider blocked the prompt ({clip_message(blocked)})")
            return
        for candidate in pick.get_objects(chunk, "candidates")[:1]:
            for part in pick.get_objects(candidate, "content", "parts"):
                self._grow(part)
            if finish := pick.get_text(candidate, "finishReason"):
                self._stop = self._stop or finish
                self._why = self._why or pick.get_text(candidate, "finishMessage")

    def _grow(self, part: dict[str, Any]) -> None:
        signature = pick.get_text(part, "thoughtSignature") or None
        if "functionCall" in part:
            self._call(pick.get_object(part, "functionCall"), signature)
            return
        piece = pick.get_text(part, "text")
        kind = "thinking" if part.get("thought") is True else "text"
        if self._part is None or self._part.kind != kind:
            if not piece and not signature:
                return
            if not piece and self._part is not None:
                # A signature on an empty part belongs to what came before it.
                self._part.signature = signature
                return
            self._part = self._builder.part("thinking" if kind == "thinking" else "text")
        if piece:
            self._builder.grow(self._part, piece)
        if signature:
            self._part.signature = signature

    def _call(self, call: dict[str, Any], signature: str | None) -> None:
        self._part = None
        part = self._builder.part("call")
        self._builder.call(part, pick.get_text(call, "id"), pick.get_text(call, "name"))
        part.signature = signature
        self._builder.grow(part, write_arguments(call.get("args")))

    def _end(self) -> None:
        stop = self._stop or ""
        if stop in STOPS:
            self._builder.finish(STOPS[stop])
            return
        detail = f": {clip_message(self._why)}" if self._why else ""
        text = f"the provider stopped the answer ({clip_message(stop)}){detail}"
        kind: FailureKind = "refused" if stop in REFUSED else "malformed" if stop in MALFORMED else "server"
        self._builder.fail(kind, text)


def read_usage(used: dict[str, Any]) -> TokenUsage:
    """Prompt tokens include what came from the cache; thoughts are output but counted apart."""
    prompt = pick.get_count(used, "promptTokenCount") + pick.get_count(used, "toolUsePromptTokenCount")
    read = min(prompt, pick.get_count(used, "cachedContentTokenCount"))
    output = pick.get_count(used, "candidatesTokenCount") + pick.get_count(used, "thoughtsTokenCount")
    return TokenUsage(prompt - read, output, read, totalTokens=pick.get_count(used, "totalTokenCount"))


WIRE = ModelWire(encode=encode, decoder=GeminiDecoder, path=build_path, key_header="x-goog-api-key")
