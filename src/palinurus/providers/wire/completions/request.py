"""Request -> Chat Completions body. Pure. Differences between servers are `compat` facts of the model, not names.

compat: supportsDeveloperRole, supportsUsageInStreaming, supportsStore, maxTokensField, requiresToolResultName,
requiresAssistantAfterToolResult, requiresMistralToolIds, requiresThinkingAsText, keepReasoning. How a level becomes a
field is the vendor's affair.
"""

from __future__ import annotations

from typing import Any

from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.providers.wire import history
from palinurus.providers.wire.arguments import encode_json
from palinurus.providers.wire.history import Blocks, CallIds, make_tool_name

# Reasoning goes back under the name it came with.
_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
SEEN = "I have seen the results."  # for servers that want an answer between results and the user


def encode(request: ModelRequest) -> dict[str, Any]:
    """The body, ready for JSON."""
    model, compat = request.model, request.model.compat
    body: dict[str, Any] = {"model": model.ref.model, "messages": _messages(request), "stream": True}
    if compat.get("supportsUsageInStreaming", True):
        body["stream_options"] = {"include_usage": True}
    sampling = history.read_sampling(request)
    body.update(sampling.name(compat.get("maxTokensField", "max_tokens"), "temperature", "top_p"))
    if compat.get("supportsStore"):
        body["store"] = False
    if request.tools and model.tools:
        body["tools"] = [history.describe_function(spec) for spec in request.tools]
        if request.tool_choice is not None:
            body["tool_choice"] = "required" if request.tool_choice == "any" else request.tool_choice
    extra = model.params.get("extraBody") or model.params.get("extra_body")
    if isinstance(extra, dict):
        body.update(extra)
    return body


def build_path(request: ModelRequest) -> str:
    """The tail of the URL; the base holds the version."""
    return "" if request.model.base_url.rstrip("/").endswith("/chat/completions") else "/chat/completions"


def _messages(request: ModelRequest) -> list[dict[str, Any]]:
    model, compat = request.model, request.model.compat
    ident = CallIds(history.make_exact_ids(9) if compat.get("requiresMistralToolIds") else history.make_safe_ids(40))
    out: list[dict[str, Any]] = []
    if request.prompt.text:
        developer = model.reasoning and compat.get("supportsDeveloperRole")
        out.append({"role": "developer" if developer else "system", "content": request.prompt.text})
    turns = sum(isinstance(message, UserMessage) for message in request.messages)  # to come
    for message in history.gather_pictures(request.messages, model.vision):
        if isinstance(message, list):
            shown = [_text("Images from the tool results above:"), *map(_image, message)]
            out.append({"role": "user", "content": shown})
        elif isinstance(message, ToolResult):
            out.append(_result(message, model, ident))
        elif isinstance(message, UserMessage):
            turns -= 1
            out.append({"role": "user", "content": _content(message.blocks, model)})
        elif said := _assistant(message, request, not turns, ident):
            out.append(said)
    if not out or (len(out) == 1 and out[0]["role"] != "user"):
        out.append({"role": "user", "content": history.OPENING})
    return _answered(out) if compat.get("requiresAssistantAfterToolResult") else out


def _answered(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An answer between each batch of results and the user who speaks next."""
    out: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "user" and out and out[-1]["role"] == "tool":
            out.append({"role": "assistant", "content": SEEN})
        out.append(message)
    return out


def _content(blocks: Blocks, model: ModelSpec) -> str | list[dict[str, Any]]:
    if not model.vision or not history.list_pictures(blocks):
        return history.join_texts(blocks, False) or history.EMPTY_MESSAGE
    return history.show_blocks(blocks, True, _text, _image)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(image: ImageBlock) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{image.mimeType};base64,{image.data}"}}


def _result(message: ToolResult, model: ModelSpec, ident: CallIds) -> dict[str, Any]:
    pictured = any(isinstance(block, ImageBlock) for block in message.content)
    text = history.join_texts(message.content, model.vision) or (history.SEE_IMAGE if pictured else history.NO_OUTPUT)
    out = {"role": "tool", "tool_call_id": ident(message.toolCallId), "content": text}
    if model.compat.get("requiresToolResultName"):
        out["name"] = make_tool_name(message.toolName)
    return out


def _assistant(
    message: AssistantMessage, request: ModelRequest, current: bool, ident: CallIds
) -> dict[str, Any] | None:
    """None when nothing of it can be sent. `current`: it belongs to the turn that is going on."""
    compat = request.model.compat
    text, calls, thought, field = "", [], "", ""
    for block in message.content:
        if isinstance(block, TextBlock):
            text += block.text
        elif isinstance(block, ToolCall):
            arguments = str(encode_json(block.arguments), "utf-8") if block.arguments else "{}"
            function = {"name": make_tool_name(block.name), "arguments": arguments}
            calls.append({"id": ident(block.id), "type": "function", "function": function})
        elif isinstance(block, ThinkingBlock) and block.thinkingSignature in _FIELDS:
            thought, field = thought + block.thinking, block.thinkingSignature or ""
    same = thought and history.is_own_answer(message, request.model)
    if same and compat.get("requiresThinkingAsText"):
        text = f"{thought}\n\n{text}" if text else thought
    text = "" if text.isspace() else text
    if not text and not calls:
        return None
    out: dict[str, Any] = {"role": "assistant", "content": text or None}
    if same and not compat.get("requiresThinkingAsText") and (current or compat.get("keepReasoning")):
        out[field] = thought
    if calls:
        out["tool_calls"] = calls
    return out
