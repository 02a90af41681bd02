"""Where the steps of a run stand in the transcript: each line of a timeline gets the entry it led to, so that one can
branch from it. Pure. The two are kept apart on disk and have only order, names and token counts in common.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any, TypeAlias

from palinurus.core.types.messages import AssistantMessage, ToolResult, UserMessage
from palinurus.sessions.entries import MessageEntry

_Mark: TypeAlias = tuple[object, ...]


def link_timeline_entries(timeline: list[dict[str, Any]], entries: Iterable[MessageEntry]) -> list[dict[str, Any]]:
    """The timeline with `entry` (and `call`, for tools) on every line whose entry is known."""
    waiting: dict[_Mark, deque[dict[str, str]]] = defaultdict(deque)
    for entry in entries:
        message, here = entry.message, {"entry": entry.id}
        if isinstance(message, UserMessage):
            waiting["accepted",].append(here)
        elif isinstance(message, AssistantMessage):
            used = message.usage
            waiting["model", f"{message.provider}/{message.model}", used.input, used.output].append(here)
            for call in message.calls:
                waiting["tool", call.name].append({**here, "call": call.id})
        elif isinstance(message, ToolResult):
            waiting["result", message.toolName].append({**here, "call": message.toolCallId})
    return [{**line, **(found.popleft() if (found := waiting[_mark(line)]) else {})} for line in timeline]


def _mark(line: dict[str, Any]) -> _Mark:
    kind, detail = line["kind"], str(line.get("detail", ""))
    if kind == "model":
        return kind, detail, line.get("input"), line.get("output")
    return (kind, detail.partition(" ")[0]) if kind in ("tool", "result") else (kind,)
