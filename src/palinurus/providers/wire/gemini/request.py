"""A request as a generateContent body.

Rules of the API kept here: user and model take turns, the first turn is the user's; every function response stands in
the turn after its calls; ids are letters and digits; thought signatures are base64 and go back only to their route.
"""

from __future__ import annotations

import re
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
from palinurus.core.types.tool import ToolSpec
from palinurus.providers.wire import pick
from palinurus.providers.wire.history import (
    NO_IMAGE,
    NO_OUTPUT,
    OPENING,
    SEE_IMAGE,
    CallIds,
    digest_id,
    is_own_answer,
    is_sendable,
    join_texts,
    make_object_schema,
    make_tool_name,
)

_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
# What the API's documentation names for calls whose signature nobody has, such as those of another model.
UNSIGNED = "skip_thought_signature_validator"
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_ALNUM = re.compile(r"[A-Za-z0-9]{1,64}")
_SIGNING = re.compile(r"(models/)?gemini-([3-9]|\d{2,})")  # generations that demand signatures on calls
_MODES: dict[str, str] = {"auto": "AUTO", "none": "NONE", "required": "ANY", "any": "ANY"}


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
    config: dict[str, Any] = {}
    if request.max_tokens is not None:
        config["maxOutputTokens"] = request.max_tokens
    if request.temperature is not None:
        config["temperature"] = request.temperature
    if config:
        body["generationConfig"] = config
    return body


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": spec.description,
        "parametersJsonSchema": make_object_schema(spec.parameters),
    }


def _choice(choice: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(choice, str):
        return {"mode": _MODES.get(choice, "AUTO")}
    name = pick.get_text(choice, "function", "name") or pick.get_text(choice, "name")
    return {"mode": "ANY", "allowedFunctionNames": [name]} if name else {"mode": "AUTO"}


def build_contents(request: ModelRequest) -> list[dict[str, Any]]:
    """The conversation in alternating turns."""
    turns: list[dict[str, Any]] = []
    idents = CallIds(make_call_id)
    for message in request.messages:
        role = "model" if isinstance(message, AssistantMessage) else "user"
        parts = _parts(message, request, idents)
        if not parts:
            continue
        if not turns and role == "model":
            turns.append({"role": "user", "parts": [{"text": OPENING}]})
        if turns and turns[-1]["role"] == role:
            turns[-1]["parts"] += parts
        else:
            turns.append({"role": role, "parts": parts})
    for turn in turns:
        if turn["role"] == "user":
            # Responses first: they answer the turn before, whatever else the user's turn holds.
            turn["parts"].sort(key=lambda part: "functionResponse" not in part)
    return turns or [{"role": "user", "parts": [{"text": OPENING}]}]


def _parts(message: Message, request: ModelRequest, idents: CallIds) -> list[dict[str, Any]]:
    if isinstance(message, UserMessage):
        return _shown(message.blocks, request.model.vision)
    if isinstance(message, ToolResult):
        return _response(message, request, idents)
    return _answer(message, request, idents)


def _shown(blocks: tuple[TextBlock | ImageBlock, ...], vision: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, ImageBlock):
            seen = vision and is_sendable(block, _IMAGES)
            data = {"mimeType": block.mimeType, "data": block.data}
            found.append({"inlineData": data} if seen else {"text": NO_IMAGE})
        elif block.text.strip():
            found.append({"text": block.text})
    return found


def _response(result: ToolResult, request: ModelRequest, idents: CallIds) -> list[dict[str, Any]]:
    pictures = tuple(b for b in result.content if isinstance(b, ImageBlock)) if request.model.vision else ()
    text = join_texts(tuple(b for b in result.content if b not in pictures), False)
    response = {
        "id": idents(result.toolCallId),
        "name": idents.names.get(result.toolCallId) or make_tool_name(result.toolName),
        "response": {"error" if result.isError else "output": text or (SEE_IMAGE if pictures else NO_OUTPUT)},
    }
    return [{"functionResponse": response}, *_shown(pictures, True)]


def _answer(message: AssistantMessage, request: ModelRequest, idents: CallIds) -> list[dict[str, Any]]:
    model = request.model
    same = is_own_answer(message, model)
    found: list[dict[str, Any]] = []
    called = False
    for block in message.content:
        if isinstance(block, TextBlock):
            if block.text.strip():
                found.append(_signed({"text": block.text}, block.textSignature, same))
        elif isinstance(block, ThinkingBlock):
            if same and block.thinking.strip():
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
    return raw if _ALNUM.fullmatch(raw) else f"call{digest_id(raw)[:24]}"
