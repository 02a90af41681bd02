"""OpenAI Responses, and the variant behind the Codex sign-in: a request as a body, the stream as events.

Nothing is stored at the provider: reasoning travels encrypted in the history. Rules of the API kept here: a reasoning
item goes back only to the route it came from, and only with the item it led to; item ids go back only beside their
reasoning; call ids are at most 64 safe characters. Items of a stream are found by output index, else by item id, so
that interleaved and out-of-order ones stay apart; a server that sends only whole items gives the same message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal

import msgspec

from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.errors import classify_stream_error
from palinurus.providers.wire import ModelWire, history, pick
from palinurus.providers.wire.arguments import encode_json
from palinurus.providers.wire.build import BlockDraft, SseDecoder
from palinurus.providers.wire.history import CallIds, make_tool_name
from palinurus.providers.wire.sse import Event

# --- the request ----------------------------------------------------------------------------------------------

LEAST_OUTPUT = 16  # the API refuses less
_ident = history.make_safe_ids(64)


def encode(request: ModelRequest) -> dict[str, Any]:
    """The body, without what is the vendor's: reasoning, service tier."""
    model = request.model
    developer = model.reasoning and model.compat.get("supportsDeveloperRole") is not False
    body = _common(request)
    if request.prompt.text:
        opening = {"role": "developer" if developer else "system", "content": request.prompt.text}
        body["input"] = [opening, *body["input"]]
    sampling = history.read_sampling(request)
    if sampling.max_tokens is not None:
        body["max_output_tokens"] = max(LEAST_OUTPUT, sampling.max_tokens)
    if not model.reasoning:
        body.update(sampling._replace(max_tokens=None).name("", "temperature", "top_p"))
    return body


def encode_codex(request: ModelRequest) -> dict[str, Any]:
    """The body of the Codex endpoint: the prompt as `instructions`, no output limit, no temperature."""
    body = _common(request)
    body["instructions"] = request.prompt.text or "You are a helpful assistant."
    body["text"] = {"verbosity": "medium"}
    body.setdefault("tool_choice", "auto")
    body["parallel_tool_calls"] = True
    return body


def _common(request: ModelRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": request.model.ref.model,
        "input": build_history(request),
        "stream": True,
        "store": False,
    }
    if request.session:
        body["prompt_cache_key"] = request.session[:64]
    if request.tools and request.model.tools:
        described = history.describe_functions(request.tools)
        body["tools"] = [{"type": "function", **tool["function"], "strict": False} for tool in described]
        if request.tool_choice is not None:
            body["tool_choice"] = _choice(request.tool_choice)
    return body


def _choice(choice: str | dict[str, Any]) -> str | dict[str, Any]:
    if isinstance(choice, str):
        return "required" if choice == "any" else choice
    mode, name = history.read_tool_choice(choice)
    return {"type": "function", "name": name} if name else mode


class _Ids(msgspec.Struct, frozen=True):
    """Ids of one request. The API refuses an item id that occurs twice."""

    call: CallIds
    seen: set[str]

    def new(self, ident: str, prefix: str) -> bool:
        """Is this an item id of that kind, and here for the first time?"""
        if not ident.startswith(prefix) or len(ident) > 64 or ident in self.seen:
            return False
        self.seen.add(ident)
        return True


def build_history(request: ModelRequest) -> list[dict[str, Any]]:
    """The conversation as input items."""
    found: list[dict[str, Any]] = []
    ids, vision = _Ids(CallIds(make_call_id), set()), request.model.vision
    for message in request.messages:
        if isinstance(message, UserMessage):
            parts = _parts(message.blocks, vision)
            found.append({"role": "user", "content": parts or [_text(history.EMPTY_MESSAGE)]})
        elif isinstance(message, ToolResult):
            found.append(_output(message, vision, ids))
        else:
            found += _answer(message, history.is_own_answer(message, request.model), ids)
    return found or [{"role": "user", "content": [_text(history.OPENING)]}]


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _image(image: ImageBlock) -> dict[str, Any]:
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{image.mimeType};base64,{image.data}"}


_parts = partial(history.show_blocks, text=_text, image=_image)


def _output(result: ToolResult, vision: bool, ids: _Ids) -> dict[str, Any]:
    pictured = any(isinstance(block, ImageBlock) for block in result.content)
    output: Any = _parts(result.content, vision) if pictured else result.text or history.NO_OUTPUT
    return {"type": "function_call_output", "call_id": ids.call(result.toolCallId), "output": output}


def _answer(message: AssistantMessage, same: bool, ids: _Ids) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    led = False  # a reasoning item waits for what it led to, or has found it in this message
    for block in message.content:
        if isinstance(block, ThinkingBlock):
            reasoning = _reasoning(block, ids) if same else None
            if reasoning is not None:
                found.append(reasoning)
                led = True
        elif isinstance(block, TextBlock):
            if not history.is_blank(block.text):
                found.append(_said(block, led, ids))
        else:
            found.append(_called(block, led, ids))
    while found and found[-1].get("type") == "reasoning":
        found.pop()  # an orphan: the API refuses reasoning that led to nothing
    return found


def _reasoning(block: ThinkingBlock, ids: _Ids) -> dict[str, Any] | None:
    """The reasoning item kept as signature. Without its encrypted content the provider could not read it."""
    kept = pick.read_object((block.thinkingSignature or "").encode("utf-8", "replace"))
    if kept is None or kept.get("type") != "reasoning" or not pick.get_text(kept, "encrypted_content"):
        return None
    item: dict[str, Any] = {
        "type": "reasoning",
        "summary": pick.get_objects(kept, "summary"),
        "encrypted_content": kept["encrypted_content"],
    }
    ident = pick.get_text(kept, "id")
    if ident and not ids.new(ident, "rs"):
        return None
    return {**item, "id": ident} if ident else item


def _said(block: TextBlock, led: bool, ids: _Ids) -> dict[str, Any]:
    """As the item it was, where its id may go along; else in the short form, which has none."""
    ident, phase = parse_text_signature(block.textSignature)
    item: dict[str, Any] = {"type": "message", "role": "assistant", "content": block.text}
    if led and phase:
        item["phase"] = phase
    if led and ids.new(ident, "msg_"):
        content = [{"type": "output_text", "text": block.text, "annotations": []}]
        item.update(id=ident, status="completed", content=content)
    return item


def parse_text_signature(signature: str | None) -> tuple[str, str]:
    """(message item id, phase) out of a text signature: our JSON, or an id alone as older transcripts have it."""
    if not signature:
        return "", ""
    kept = pick.read_object(signature.encode("utf-8", "replace")) if signature[:1] == "{" else {"id": signature}
    ident = pick.get_text(kept, "id")
    return (ident if ident.startswith("msg_") and len(ident) <= 64 else ""), pick.get_text(kept, "phase")


def _called(call: ToolCall, led: bool, ids: _Ids) -> dict[str, Any]:
    item: dict[str, Any] = {
        "type": "function_call",
        "call_id": ids.call(call.id),
        "name": make_tool_name(call.name),
        "arguments": str(encode_json(call.arguments), "utf-8"),
    }
    own_id = call.id.partition("|")[2]
    if led and ids.new(own_id, "fc_"):
        item["id"] = own_id
    return item


def make_call_id(ident: str) -> str:
    """The first half of `call_…|fc_…`, in letters the API takes."""
    return _ident(ident.partition("|")[0] or ident)


# --- the answer -----------------------------------------------------------------------------------------------

_KINDS: dict[str, Literal["text", "thinking", "call"]] = {
    "message": "text",
    "reasoning": "thinking",
    "function_call": "call",
}


class ResponsesDecoder(SseDecoder):
    """One answer. It ends with an event of its own, so `_stop` is never set."""

    __slots__ = ("_closed", "_parts")

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request)
        self._parts: dict[int | str, BlockDraft] = {}
        self._closed: set[int] = set()  # ids of parts whose item is complete

    def _take(self, piece: Event) -> None:
        event = pick.read_object(piece[1])
        if event is None:
            self._refuse_chunk(piece[1])
            return
        self._seen = True
        kind = pick.get_text(event, "type")
        if not kind and event.get("object") == "response":
            self._completed({"response": event})
        elif not kind and event.get("error"):
            self._error(event)
        elif kind in self._RULES:
            self._RULES[kind](self, event)

    # --- items -------------------------------------------------------------------------------------------------

    def _find(self, event: dict[str, Any], kind: Literal["text", "thinking", "call"]) -> BlockDraft | None:
        """The block an event belongs to, made if it is new. None when the place holds another kind of block."""
        key: int | str | None = None
        index, ident = event.get("output_index"), pick.get_text(event, "item_id") or pick.get_text(event, "item", "id")
        if isinstance(index, int) and not isinstance(index, bool):
            key = index
        elif ident:
            key = ident
        part = self._parts.get(key) if key is not None else None
        if part is None and ident:
            part = self._parts.get(ident)
        if part is None:
            part = self._builder.part(kind)
            if key is not None:
                self._parts[key] = part
            if ident:
                self._parts[ident] = part
        return part if part.kind == kind else None

    def _added(self, event: dict[str, Any]) -> None:
        item = pick.get_object(event, "item")
        kind = _KINDS.get(pick.get_text(item, "type"))
        if kind is None:
            return
        part = self._find(event, kind)
        if part is not None and kind == "call":
            self._named(part, item)

    def _named(self, part: BlockDraft, item: dict[str, Any]) -> None:
        if part.index >= 0 or not pick.get_text(item, "name"):
            return
        call, ident = pick.get_text(item, "call_id"), pick.get_text(item, "id")
        self._builder.call(part, f"{call}|{ident}" if call and ident else call or ident, pick.get_text(item, "name"))

    def _grow(self, event: dict[str, Any], kind: Literal["text", "thinking", "call"]) -> None:
        piece = pick.get_text(event, "delta")
        part = self._find(event, kind) if piece else None
        if part is not None and id(part) not in self._closed:
            self._builder.grow(part, piece)

    def _part_added(self, event: dict[str, Any]) -> None:
        part = self._find(event, "thinking")
        if part is not None and part.pieces and id(part) not in self._closed:
            self._builder.grow(part, "\n\n")

    def _item_done(self, event: dict[str, Any]) -> None:
        item = pick.get_object(event, "item")
        kind = _KINDS.get(pick.get_text(item, "type"))
        part = self._find(event, kind) if kind else None
        if part is None or id(part) in self._closed:
            return
        self._closed.add(id(part))
        if kind == "call":
            self._named(part, item)
            self._rest(part, pick.get_text(item, "arguments"))
        elif kind == "text":
            said = pick.get_objects(item, "content")
            self._rest(part, "".join(pick.get_text(s, "text") or pick.get_text(s, "refusal") for s in said))
            part.signature = _signature(v=1, id=pick.get_text(item, "id"), phase=pick.get_text(item, "phase"))
        else:
            shown = pick.get_objects(item, "summary") or pick.get_objects(item, "content")
            self._rest(part, "\n\n".join(pick.get_text(s, "text") for s in shown))
            part.signature = _sign_reasoning(item)

    def _rest(self, part: BlockDraft, whole: str) -> None:
        """What the complete item holds beyond the pieces that came."""
        had = "".join(part.pieces)
        if whole.startswith(had) and len(whole) > len(had):
            self._builder.grow(part, whole[len(had) :])

    # --- the end -----------------------------------------------------------------------------------------------

    def _completed(self, event: dict[str, Any]) -> None:
        response = pick.get_object(event, "response")
        if pick.get_text(response, "status") == "failed":
            self._failed(event)
            return
        if not self._closed:
            for index, item in enumerate(pick.get_objects(response, "output")):
                self._item_done({"output_index": index, "item": item})
        if response.get("usage") is not None:
            self._builder.usage = read_usage(pick.get_object(response, "usage"))
        cause = pick.get_text(response, "incomplete_details", "reason")
        if cause == "content_filter":
            self._builder.fail("refused", "the provider's content filter stopped the answer")
        elif pick.get_text(response, "status") == "cancelled":
            self._builder.fail("server", "the provider cancelled the answer")
        else:
            short = bool(cause) or pick.get_text(response, "status") == "incomplete"
            self._builder.finish("length" if short else "stop")

    def _failed(self, event: dict[str, Any]) -> None:
        response = pick.get_object(event, "response")
        if response.get("usage") is not None:
            self._builder.usage = read_usage(pick.get_object(response, "usage"))
        self._refuse(response.get("error") or pick.get_object(response, "incomplete_details"))

    def _error(self, event: dict[str, Any]) -> None:
        self._refuse(event.get("error") or event)

    def _refuse(self, error: Any) -> None:
        if isinstance(error, dict) and error.get("type") == "error":
            error = {key: value for key, value in error.items() if key != "type"}
        self._builder.fail_with(classify_stream_error(error))

    _RULES: ClassVar[dict[str, Callable[[ResponsesDecoder, dict[str, Any]], None]]] = {
        "response.output_item.added": _added,
        "response.output_text.delta": partial(_grow, kind="text"),
        "response.refusal.delta": partial(_grow, kind="text"),
        "response.reasoning_summary_part.added": _part_added,
        "response.reasoning_summary_text.delta": partial(_grow, kind="thinking"),
        "response.reasoning_text.delta": partial(_grow, kind="thinking"),
        "response.function_call_arguments.delta": partial(_grow, kind="call"),
        "response.output_item.done": _item_done,
        "response.completed": _completed,
        "response.incomplete": _completed,
        "response.done": _completed,
        "response.failed": _failed,
        "error": _error,
    }


def _signature(**fields: str | int) -> str | None:
    kept = {key: value for key, value in fields.items() if value}
    return msgspec.json.encode(kept).decode() if kept.get("id") else None


def _sign_reasoning(item: dict[str, Any]) -> str | None:
    """The item as it must go back, or None when it cannot."""
    if not pick.get_text(item, "encrypted_content"):
        return None
    kept = {key: item[key] for key in ("id", "type", "summary", "encrypted_content") if key in item}
    try:
        return msgspec.json.encode(kept).decode()
    except (msgspec.EncodeError, UnicodeError, ValueError, RecursionError):
        return None


def read_usage(used: dict[str, Any]) -> TokenUsage:
    """Input tokens include what came from the cache; ours do not."""
    total, output = pick.get_count(used, "input_tokens"), pick.get_count(used, "output_tokens")
    read = min(total, pick.get_count(used, "input_tokens_details", "cached_tokens"))
    return TokenUsage(total - read, output, read, totalTokens=pick.get_count(used, "total_tokens"))


WIRE = ModelWire(encode=encode, decoder=ResponsesDecoder, path=lambda request: "/responses")
CODEX = ModelWire(encode=encode_codex, decoder=ResponsesDecoder, path=lambda request: "/codex/responses")
