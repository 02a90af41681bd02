"""A request as a generateContent body.

Rules of the API kept here: user and model take turns, the first turn is the user's; every function response stands in
the turn after its calls; ids are letters and digits; thought signatures are base64 and go back only to their route.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any
from urllib.parse import quote

from palinurus.core.types.messages import AssistantMessage, ImageBlock, TextBlock, ThinkingBlock, ToolCall, ToolResult
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.tool import ToolSpec
from palinurus.providers.wire import history
from palinurus.providers.wire.history import CallIds, make_tool_name

_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
# What the API's documentation names for calls whose signature nobody has, such as those of another model.
UNSIGNED = "skip_thought_signature_validator"
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_ALNUM = re.compile(r"[A-Za-z0-9]{1,64}")
_SIGNING = re.compile(r"(models/)?gemini-([3-9]|\d{2,})")  # generations that demand signatures on calls


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
