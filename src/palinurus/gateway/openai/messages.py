"""The messages of a chat-completions request: what is said now, what was said before, system words, pictures. Pure.

A model of ours sees the client's own tools as the agent sees its own: calls and results keep their roles.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from palinurus.core.types.inbound import EarlierMessage
from palinurus.core.types.messages import ImageBlock, ToolCall
from palinurus.gateway.http import HttpFault, make_bad_request

IMAGES = 20
RESULTS = ("tool", "function")


class _Url(msgspec.Struct, frozen=True):
    url: str


class OpenAiPart(msgspec.Struct, frozen=True):
    """A piece of a message."""

    type: str
    text: str = ""
    image_url: _Url | str | None = None


class _Named(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: str = ""


class _Call(msgspec.Struct, frozen=True):
    id: str = ""
    function: _Named | None = None


class OpenAiMessage(msgspec.Struct, frozen=True):
    """One message as the client sends it."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[OpenAiPart] | None = None
    name: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


class OpenAiConversation(msgspec.Struct, frozen=True):
    """A request's messages understood."""

    text: str  # what is said now
    images: tuple[ImageBlock, ...]
    system: str
    context: list[EarlierMessage]  # what was said before
    results: tuple[EarlierMessage, ...] = ()  # of the client's tools, when they are what is said now


def read_conversation(messages: list[OpenAiMessage]) -> OpenAiConversation | HttpFault:
    """The last message of the user, or the last results of the client's tools, is what is said now."""
    system: list[str] = []
    spoken = [m for m in messages if m.role not in ("system", "developer")]
    for message in messages:
        if message.role in ("system", "developer"):
            text = _text(message)
            if isinstance(text, HttpFault):
                return text
            system.append(text)
    if not spoken or spoken[-1].role == "assistant":
        return make_bad_request("the last message must come from the user or a tool", "messages")
    names = {call.id: call.function.name for m in spoken for call in m.tool_calls or () if call.function}
    now = _now(spoken)
    context = _told(spoken[: len(spoken) - now], names)
    said = _told(spoken[-now:], names, images=True)
    images = _images(spoken[-1])
    for part in (context, said, images):
        if isinstance(part, HttpFault):
            return part
    assert isinstance(context, list) and isinstance(said, list) and isinstance(images, tuple)
    results = tuple(told for told in said if told.role == "tool")
    text = "\n\n".join(_in_words(told) if told.role == "tool" else told.content for told in said)
    if not text.strip() and not images:
        return make_bad_request("the user's message is empty", "messages")
    return OpenAiConversation(text, images, "\n\n".join(s for s in system if s), context, results=results)


def _now(spoken: list[OpenAiMessage]) -> int:
    """How many messages at the end are said now: the user's last one, or the results that stand there."""
    if spoken[-1].role not in RESULTS:
        return 1
    count = 0
    while count < len(spoken) and spoken[-1 - count].role in RESULTS:
        count += 1
    return count


def _told(
    messages: list[OpenAiMessage], names: dict[str, str], images: bool = False
) -> list[EarlierMessage] | HttpFault:
    """Messages as they will be kept. Calls whose arguments are no JSON object, and results of no known call, are told
    in words: a model's own words and the user's."""
    made: list[EarlierMessage] = []
    for message in messages:
        text = _text(message, images)
        if isinstance(text, HttpFault):
            return text
        if message.role in RESULTS:
            ident = message.tool_call_id or ""
            told = EarlierMessage("tool", text, call=ident, name=names.get(ident, "") or message.name or "a tool")
            made.append(told if ident in names or images else EarlierMessage("user", _in_words(told), name=told.name))
            continue
        calls, words = _calls(message)
        text = "\n".join([*([text] if text else []), *words])
        if text or calls:
            made.append(EarlierMessage(message.role, text, calls))
    return made


def _in_words(told: EarlierMessage) -> str:
    return f"[result of {told.name}]\n{told.content}"


def _calls(message: OpenAiMessage) -> tuple[tuple[ToolCall, ...], list[str]]:
    """The calls of a message, and those in words that no model could have made."""
    calls: list[ToolCall] = []
    words: list[str] = []
    for call in message.tool_calls or ():
        arguments = _read_arguments(call.function.arguments) if call.function else None
        if call.function and call.id and call.function.name and arguments is not None:
            calls.append(ToolCall(call.id, call.function.name, arguments))
        elif call.function:
            words.append(f"[called {call.function.name} {call.function.arguments}]")
    return tuple(calls), words


def _read_arguments(text: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _text(message: OpenAiMessage, images: bool = False) -> str | HttpFault:
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    pieces: list[str] = []
    for piece in content:
        if piece.type in ("text", "input_text", "refusal"):
            pieces.append(piece.text)
        elif piece.type != "image_url":
            text = f"content of type {piece.type[:32]!r} is not supported"
            return make_bad_request(text, "messages", code="unsupported_content")
        elif not images:
            pieces.append("[image]")  # an earlier picture is mentioned, not sent again
    return "\n".join(p for p in pieces if p)


def _images(message: OpenAiMessage) -> tuple[ImageBlock, ...] | HttpFault:
    if message.content is None or isinstance(message.content, str):
        return ()
    images: list[ImageBlock] = []
    for piece in message.content:
        if piece.type != "image_url":
            continue
        url = piece.image_url.url if isinstance(piece.image_url, _Url) else piece.image_url or ""
        head, comma, data = url.partition(",")
        mime = head.removeprefix("data:").removesuffix(";base64").strip().lower()
        if not (comma and data and head.startswith("data:image/") and head.endswith(";base64")):
            text = "images must be data:image/…;base64 URLs; nothing is fetched"
            return make_bad_request(text, "messages", code="bad_image")
        images.append(ImageBlock(data, mime))
    if len(images) > IMAGES:
        return make_bad_request(f"more than {IMAGES} images", "messages", code="bad_image")
    return tuple(images)
