"""Conversations that were kept as chat-completions messages (hermes, nanobot) as transcripts of ours."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from palinurus.app.migrate.found import decode_object
from palinurus.core.types.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.sessions.entries import (
    TRANSCRIPT_VERSION,
    MessageEntry,
    TranscriptHeader,
    encode_entry,
    encode_header,
    to_iso,
    to_millis,
)

REWRITTEN = "written in our format: the words and tool calls are the same"


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One of theirs. `at`: milliseconds."""

    role: str
    content: Any = None
    at: int = 0
    calls: Any = None
    call_id: str = ""
    name: str = ""
    thinking: str = ""
    model: str = ""


def write_transcript(key: str, ident: str, messages: Iterable[ChatMessage]) -> bytes:
    """The file. Ids come from what is said and where, so that the same conversation always gives the same bytes."""
    said = [message for message in messages if message.role in ("user", "assistant", "tool")]
    began = next((message.at for message in said if message.at), 0)
    lines = [
        encode_header(TranscriptHeader(version=TRANSCRIPT_VERSION, id=ident, timestamp=to_iso(began), sessionKey=key))
    ]
    before: str | None = None
    tools: dict[str, str] = {}
    for number, message in enumerate(said):
        made = _make(message, tools)
        name = hashlib.sha256(f"{ident}/{number}".encode()).hexdigest()[:8]
        entry = MessageEntry(id=name, parentId=before, timestamp=to_iso(message.at or began), message=made)
        lines.append(encode_entry(entry)[1])
        before = name
    return b"\n".join((*lines, b""))


def _make(message: ChatMessage, tools: dict[str, str]) -> Message:
    text = read_text(message.content)
    if message.role == "user":
        return UserMessage(text, message.at)
    if message.role == "tool":
        name = message.name or tools.get(message.call_id, "tool")
        return ToolResult(message.call_id, name, (TextBlock(text),), timestamp=message.at, source=f"import {name}"[:80])
    calls = tuple(_call(call) for call in message.calls or () if isinstance(call, dict))
    tools.update((call.id, call.name) for call in calls)
    thought = (ThinkingBlock(message.thinking),) if message.thinking else ()
    provider, _, model = message.model.rpartition("/")
    return AssistantMessage(
        (*thought, *((TextBlock(text),) if text else ()), *calls),
        provider=provider,
        model=model,
        stopReason="toolUse" if calls else "stop",
        timestamp=message.at,
    )


def _call(call: dict[str, Any]) -> ToolCall:
    inner = call.get("function")
    about = inner if isinstance(inner, dict) else call
    given = about.get("arguments")
    arguments = given if isinstance(given, dict) else decode_object(given)
    return ToolCall(str(call.get("id") or ""), str(about.get("name") or "tool"), arguments)


def read_text(content: Any) -> str:
    """What was said, of a content that is a text or a list of parts; pictures and the like are named."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or f"[{part.get('type')}]") for part in content if isinstance(part, dict))
    return "" if content is None else str(content)


def read_time(stamp: Any) -> int:
    """Milliseconds of seconds or of an ISO date; 0 for anything else."""
    if isinstance(stamp, int | float) and not isinstance(stamp, bool):
        return int(stamp * 1000)
    return to_millis(stamp) if isinstance(stamp, str) else 0
