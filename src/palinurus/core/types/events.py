"""The seeds' ten run events. A run is an async iterator of these; everything people see is made from them."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.core.types.messages import AssistantMessage, Message, ToolResult, UserMessage
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.usage import TokenUsage

# Why a run ended.
RunEndReason: TypeAlias = Literal["stop", "length", "aborted", "timeout", "max_turns", "tool_loop", "error"]


class AgentStart(msgspec.Struct, frozen=True, tag="agent_start"):
    run: str
    session: str
    model: str
    started: int
    reasoning: str = "off"  # off, on, stream: what faces that read events show of it
    tagged: bool = False  # the model was told to write <think> and to put its answer into <final>
    level: str = ""  # how long it thinks


class MessageStart(msgspec.Struct, frozen=True, tag="message_start"):
    """A message begins. A user message (the prompt, a steered one) is complete; for the model's it is None."""

    message: UserMessage | None = None


class MessageUpdate(msgspec.Struct, frozen=True, tag="message_update"):
    """An increment of the model's message. `kind` says of what; `status` is no part of it: why nothing comes yet."""

    delta: str
    kind: Literal["text", "thinking", "status"] = "text"


class MessageEnd(msgspec.Struct, frozen=True, tag="message_end"):
    """The complete message. With tool calls another turn follows; without, the run is complete."""

    message: UserMessage | AssistantMessage | ToolResult


class ToolStart(msgspec.Struct, frozen=True, tag="tool_execution_start"):
    id: str
    name: str
    args: dict[str, Any]
    summary: str = ""


class ToolUpdate(msgspec.Struct, frozen=True, tag="tool_execution_update", omit_defaults=True):
    """Progress. With `approval` the tool waits for a person: `partial` is then the card to show them."""

    id: str
    name: str
    partial: str
    approval: str = ""  # the id of the question


class ToolEnd(msgspec.Struct, frozen=True, tag="tool_execution_end"):
    id: str
    name: str
    result: ToolResult
    is_error: bool
    took_ms: int


class CompactionStart(msgspec.Struct, frozen=True, tag="auto_compaction_start"):
    reason: str


class CompactionEnd(msgspec.Struct, frozen=True, tag="auto_compaction_end"):
    completed: bool
    will_retry: bool = False


class AgentEnd(msgspec.Struct, frozen=True, tag="agent_end"):
    """The last event of every run. `messages` are all new ones, in order."""

    messages: tuple[Message, ...]
    end: RunEndReason
    usage: TokenUsage
    failure: ModelFailure | None = None
    ended: int = 0
    notices: tuple[str, ...] = ()  # what people should be told besides the answer


RunEvent: TypeAlias = (
    AgentStart
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolStart
    | ToolUpdate
    | ToolEnd
    | CompactionStart
    | CompactionEnd
    | AgentEnd
)
