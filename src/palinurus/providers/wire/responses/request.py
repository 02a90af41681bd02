"""A request as a Responses body. Nothing is stored at the provider: reasoning travels encrypted in the history.

Rules of the API kept here: a reasoning item goes back only to the route it came from, and only with the item it led
to; item ids go back only beside their reasoning; call ids are at most 64 safe characters.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

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
from palinurus.core.types.tool import ToolSpec
from palinurus.providers.wire import history, pick
from palinurus.providers.wire.arguments import encode_json
from palinurus.providers.wire.history import CallIds, make_tool_name

LEAST_OUTPUT = 16  # the API refuses less
_ident = history.make_safe_ids(64)


def build_path(request: ModelRequest) -> str:
    return "/responses"


def build_codex_path(request: ModelRequest) -> str:
    return "/codex/responses"


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
        body["tools"] = [_tool(spec) for spec in request.tools]
        if request.tool_choice is not None:
            body["tool_choice"] = _choice(request.tool_choice)
    return body


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": history.make_object_schema(spec.parameters),
        "strict": False,
    }


def _choice(choice: str | dict[str, Any]) -> str | dict[str, Any]:
    if isinstance(choice, str):
        return "required" if choice == "any" else choice
    mode, name = history.read_tool_choice(choice)
    return {"type": "function", "name": name} if name else mode


class _Ids(NamedTuple):
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
    ids = _Ids(CallIds(make_call_id), set())
    for message in request.messages:
        found += _items(message, request, ids)
    return found or [{"role": "user", "content": [_text(history.OPENING)]}]


def _items(message: Message, request: ModelRequest, ids: _Ids) -> list[dict[str, Any]]:
    if isinstance(message, UserMessage):
        parts = _parts(message.blocks, request.model.vision)
        return [{"role": "user", "content": parts or [_text(history.EMPTY_MESSAGE)]}]
    if isinstance(message, ToolResult):
        return [_output(message, request.model.vision, ids)]
    return _answer(message, history.is_own_answer(message, request.model), ids)


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
