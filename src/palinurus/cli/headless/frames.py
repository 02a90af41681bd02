"""Run events as the messages of Claude's Agent SDK: one JSON object a line. Pure but for `write`."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from palinurus import __version__
from palinurus.cli.reach.client import CliOutcome
from palinurus.clock import Clock
from palinurus.core.policy.modes import REFUSED
from palinurus.core.types.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    RunEvent,
    ToolEnd,
    ToolStart,
    ToolUpdate,
)
from palinurus.core.types.messages import AssistantMessage, ImageBlock, TextBlock, ThinkingBlock, ToolCall, ToolResult
from palinurus.core.types.usage import TokenUsage

Frame: TypeAlias = dict[str, Any]
_STOPS = {"stop": "end_turn", "toolUse": "tool_use", "length": "max_tokens"}
_SUBTYPES = {"max_turns": "error_max_turns", "aborted": "error_during_execution", "timeout": "error_during_execution"}


class TurnFrames:
    """The messages of one turn."""

    def __init__(self, session: str, write: Callable[[Frame], None], clock: Clock, *, partial: bool = False) -> None:
        self._session = session
        self._write = write
        self._clock = clock
        self._partial = partial
        self._began = self._mark = clock.monotonic()
        self._busy = 0.0  # seconds in which a model was asked
        self._open = ""  # which kind of block partial messages are in
        self._model = ""
        self._init: Frame | None = None
        self._end = ""
        self._turns = 0
        self._asked: set[str] = set()
        self.calls: dict[str, ToolStart] = {}
        self.denials: list[Frame] = []

    def begin(self, mode: str, cwd: str, tools: tuple[str, ...]) -> None:
        """system/init, once the model is known. `tools`: those that were named on the line; which others
        there are is the agent's affair."""
        none: Frame = {name: [] for name in ("mcp_servers", "slash_commands", "agents", "skills", "plugins")}
        self._init = {
            "cwd": cwd,
            "tools": list(tools),
            "permissionMode": mode or "default",
            "apiKeySource": "none",
            "output_style": "default",
            "palinurus_version": __version__,
            **none,
        }

    def _introduce(self) -> None:
        if self._init is not None:
            self._send("system", subtype="init", model=self._model, **self._init)
        self._init = None

    def take(self, event: RunEvent) -> None:
        """One event."""
        if isinstance(event, AgentStart):
            self._model, self._mark = event.model, self._clock.monotonic()
            self._introduce()
        elif isinstance(event, MessageStart) and event.message is None:
            self._piece("message_start", message={"role": "assistant", "content": [], "model": self._model})
        elif isinstance(event, MessageUpdate):
            self._update(event)
        elif isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            self._said(event.message)
        elif isinstance(event, ToolStart):
            self.calls[event.id] = event
        elif isinstance(event, ToolUpdate) and event.approval:
            self._asked.add(event.id)
        elif isinstance(event, ToolEnd):
            self._done(event)
        elif isinstance(event, AgentEnd):
            self._end = event.end

    def _update(self, event: MessageUpdate) -> None:
        if event.kind == "status" or not self._partial:
            return
        if self._open != event.kind:
            self._shut()
            self._open = event.kind
            self._piece("content_block_start", index=0, content_block={"type": event.kind, event.kind: ""})
        self._piece("content_block_delta", index=0, delta={"type": f"{event.kind}_delta", event.kind: event.delta})

    def _shut(self) -> None:
        if self._open:
            self._piece("content_block_stop", index=0)
        self._open = ""

    def _said(self, message: AssistantMessage) -> None:
        self._turns += 1
        self._busy += self._clock.monotonic() - self._mark
        self._shut()
        stop = _STOPS.get(message.stopReason)
        self._piece("message_delta", delta={"stop_reason": stop}, usage=to_usage(message.usage))
        self._piece("message_stop")
        blocks = [_to_block(block) for block in message.content]
        if blocks:
            body = {
                "id": f"msg_{uuid.uuid4().hex[:24]}",
                "type": "message",
                "role": "assistant",
                "model": self._model,
                "content": blocks,
                "stop_reason": stop,
                "usage": to_usage(message.usage),
            }
            self._send("assistant", message=body, parent_tool_use_id=None)

    def _done(self, event: ToolEnd) -> None:
        self._mark = self._clock.monotonic()
        call, result = self.calls.get(event.id), event.result
        if event.is_error and (event.id in self._asked or result.text.startswith(REFUSED)):
            args = call.args if call else {}
            self.denials.append({"tool_name": event.name, "tool_use_id": event.id, "tool_input": args})
        block = {
            "type": "tool_result",
            "tool_use_id": event.id,
            "content": _to_content(result),
            "is_error": event.is_error,
        }
        self._send("user", message={"role": "user", "content": [block]}, parent_tool_use_id=None)

    def finish(self, outcome: CliOutcome, *, structured: bool = False) -> Frame:
        """The result, written and returned."""
        self._introduce()
        cost, failed = outcome.usage.cost, bool(outcome.error)
        subtype = _SUBTYPES.get(self._end, "error_during_execution") if failed else "success"
        more: Frame = {"errors": [outcome.error]} if failed else {}
        if structured and not failed:
            more["structured_output"] = msgspec.json.decode(outcome.text)
        usage = to_usage(outcome.usage)
        return self._send(
            "result",
            subtype=subtype,
            is_error=failed,
            duration_ms=round(1000 * (self._clock.monotonic() - self._began)),
            duration_api_ms=round(1000 * self._busy),
            num_turns=self._turns,
            result=outcome.text or outcome.error,
            stop_reason=None if failed else "end_turn",
            total_cost_usd=cost.total if cost else None,
            usage=usage,
            modelUsage={self._model: usage} if self._model else {},
            permission_denials=self.denials,
            **more,
        )

    def _piece(self, kind: str, **fields: Any) -> None:
        if self._partial:
            self._send("stream_event", event={"type": kind, **fields}, parent_tool_use_id=None)

    def _send(self, kind: str, **fields: Any) -> Frame:
        frame = {"type": kind, **fields, "session_id": self._session, "uuid": str(uuid.uuid4())}
        self._write(frame)
        return frame


def to_usage(usage: TokenUsage) -> Frame:
    """In Anthropic's words."""
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cacheRead,
        "cache_creation_input_tokens": usage.cacheWrite,
    }


def _to_block(block: TextBlock | ThinkingBlock | ToolCall) -> Frame:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, ThinkingBlock):
        return {"type": "thinking", "thinking": block.thinking, "signature": ""}
    return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.arguments}


def _to_content(result: ToolResult) -> list[Frame]:
    return [
        {"type": "image", "source": {"type": "base64", "media_type": block.mimeType, "data": block.data}}
        if isinstance(block, ImageBlock)
        else {"type": "text", "text": block.text}
        for block in result.content
    ]
