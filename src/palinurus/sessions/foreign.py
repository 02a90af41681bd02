"""Lines that are sound JSON but not our shape: older versions, other writers, small mistakes.

Takes the decoded object, gives the nearest entry; what cannot be understood is kept as `UnknownEntry`.
Pure: knows nothing of bytes and files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec
from msgspec import UNSET

from palinurus.core.types import messages
from palinurus.core.types.usage import TokenCost, TokenUsage
from palinurus.sessions import entries

_STOPS = frozenset(get_args(messages.StopReason))
_COUNTS = ("input", "output", "cacheRead", "cacheWrite", "totalTokens")


def convert_entry(raw: dict[str, Any]) -> entries.TranscriptHeader | entries.TranscriptEntry:
    """The entry this object means. Raises ValueError when it has no `type`: then it is no line of ours."""
    kind = raw.get("type")
    if not isinstance(kind, str):
        raise ValueError("an object without a type")
    if kind == "session":
        return _header(raw)
    place = _place(raw)
    if kind == "message":
        body = raw.get("message")
        message = convert_message(body) if isinstance(body, dict) else None
        return (
            entries.UnknownEntry(raw=raw, **place)
            if message is None
            else entries.MessageEntry(message=message, **place)
        )
    try:
        known: entries.KnownEntry = msgspec.convert({**raw, **place}, entries.KnownEntry, strict=False)
        return known
    except msgspec.ValidationError:
        return entries.UnknownEntry(raw=raw, **place)


def convert_message(raw: dict[str, Any]) -> messages.Message | None:
    """A message of any known role, in one of our three; None when there is nothing to show a model."""
    role = raw.get("role")
    build = _ROLES.get(role) if isinstance(role, str) else None
    return build(raw) if build else None


def _header(raw: dict[str, Any]) -> entries.TranscriptHeader:
    version = raw.get("version")
    return entries.TranscriptHeader(
        version=version if type(version) is int else 1,
        id=_text(raw.get("id")),
        timestamp=_stamp(raw.get("timestamp")),
        cwd=_text(raw.get("cwd")),
        parentSession=_maybe(raw.get("parentSession")),
    )


def _place(raw: dict[str, Any]) -> dict[str, Any]:
    parent = raw.get("parentId", UNSET)
    place: dict[str, Any] = {
        "id": _text(raw.get("id")),
        "timestamp": _stamp(raw.get("timestamp")),
        "item": _text(raw.get("item")),
    }
    if parent is not UNSET:
        place["parentId"] = None if parent is None else _text(parent)
    return place


def _user(raw: dict[str, Any]) -> messages.UserMessage | None:
    content = raw.get("content")
    if isinstance(content, str):
        return messages.UserMessage(content, _ms(raw.get("timestamp")))
    blocks = _shown(content)
    return messages.UserMessage(blocks, _ms(raw.get("timestamp"))) if blocks else None


def _assistant(raw: dict[str, Any]) -> messages.AssistantMessage:
    content = tuple(
        b
        for b in map(_block, _listed(raw.get("content")))
        if isinstance(b, messages.TextBlock | messages.ThinkingBlock | messages.ToolCall)
    )
    stop: Any = raw.get("stopReason")
    if not isinstance(stop, str) or stop not in _STOPS:
        stop = "toolUse" if any(isinstance(b, messages.ToolCall) for b in content) else "stop"
    return messages.AssistantMessage(
        content=content,
        api=_text(raw.get("api")),
        provider=_text(raw.get("provider")),
        model=_text(raw.get("model")),
        usage=_usage(raw.get("usage")),
        stopReason=stop,
        errorMessage=_maybe(raw.get("errorMessage")),
        timestamp=_ms(raw.get("timestamp")),
    )


def _result(raw: dict[str, Any]) -> messages.ToolResult:
    return messages.ToolResult(
        toolCallId=_text(raw.get("toolCallId") or raw.get("toolUseId") or raw.get("tool_call_id")),
        toolName=_text(raw.get("toolName") or raw.get("name")),
        content=_shown(raw.get("content")),
        isError=raw.get("isError") is True,
        details=raw.get("details"),
        timestamp=_ms(raw.get("timestamp")),
    )


def _bash(raw: dict[str, Any]) -> messages.UserMessage | None:
    """A command a person ran in the session, and what it printed."""
    if raw.get("excludeFromContext") is True:
        return None
    code = raw.get("exitCode")
    ended = f"\nexit code {code}" if type(code) is int and code else ""
    text = f"I ran this command: {_text(raw.get('command'))}\n\n{_text(raw.get('output')) or '(no output)'}{ended}"
    return messages.UserMessage(text, _ms(raw.get("timestamp")))


def _sourced(message: messages.UserMessage | None, source: str) -> messages.UserMessage | None:
    return msgspec.structs.replace(message, source=source) if message is not None else None


_ROLES: dict[str, Callable[[dict[str, Any]], messages.Message | None]] = {
    "user": _user,
    "assistant": _assistant,
    "toolResult": _result,
    "bashExecution": lambda raw: _sourced(_bash(raw), "command"),
    "custom": lambda raw: _sourced(_user(raw), entries.IMPORTED),
    "hookMessage": lambda raw: _sourced(_user(raw), entries.IMPORTED),  # version 2's name of custom
    "compactionSummary": lambda raw: entries.make_summary_message(_text(raw.get("summary")), _ms(raw.get("timestamp"))),
    "branchSummary": lambda raw: entries.make_branch_message(_text(raw.get("summary")), _ms(raw.get("timestamp"))),
}


def _listed(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _shown(content: Any) -> tuple[messages.TextBlock | messages.ImageBlock, ...]:
    return tuple(b for b in map(_block, _listed(content)) if isinstance(b, messages.TextBlock | messages.ImageBlock))


def _block(raw: Any) -> messages.TextBlock | messages.ThinkingBlock | messages.ImageBlock | messages.ToolCall | None:
    if isinstance(raw, str):
        return messages.TextBlock(raw)
    kind = raw.get("type") if isinstance(raw, dict) else None
    build = _BLOCKS.get(kind) if isinstance(kind, str) else None
    return build(raw) if build else None


def _image_block(raw: dict[str, Any]) -> messages.ImageBlock | None:
    data, mime = raw.get("data"), raw.get("mimeType")
    return messages.ImageBlock(data, mime) if isinstance(data, str) and isinstance(mime, str) else None


def _call_block(raw: dict[str, Any]) -> messages.ToolCall:
    arguments, invalid = raw.get("arguments", raw.get("input")), None
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except (ValueError, RecursionError):
            arguments = None
    if not isinstance(arguments, dict):
        arguments, invalid = {}, "the arguments on file are not an object"
    return messages.ToolCall(
        _text(raw.get("id")), _text(raw.get("name")), arguments, _maybe(raw.get("thoughtSignature")), invalid=invalid
    )


_BLOCKS: dict[
    str,
    Callable[
        [dict[str, Any]], messages.TextBlock | messages.ThinkingBlock | messages.ImageBlock | messages.ToolCall | None
    ],
] = {
    "text": lambda raw: messages.TextBlock(_text(raw.get("text")), _maybe(raw.get("textSignature"))),
    "thinking": lambda raw: messages.ThinkingBlock(
        _text(raw.get("thinking")), _maybe(raw.get("thinkingSignature")), raw.get("redacted") is True
    ),
    "image": _image_block,
    "toolCall": _call_block,
    "toolUse": _call_block,
    "functionCall": _call_block,
}


def _usage(raw: Any) -> TokenUsage:
    if not isinstance(raw, dict):
        return TokenUsage()
    cost = raw.get("cost")
    try:
        priced = msgspec.convert(cost, TokenCost, strict=False) if isinstance(cost, dict) else None
    except msgspec.ValidationError:
        priced = None
    return TokenUsage(**{name: _count(raw.get(name)) for name in _COUNTS}, cost=priced)


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**53 else 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _maybe(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _ms(value: Any) -> int:
    return entries.to_millis(value) if isinstance(value, str) else _count(value)


def _stamp(value: Any) -> str:
    if isinstance(value, str):
        return value
    return entries.to_iso(_count(value)) if 0 < _count(value) < 2**47 else ""
