"""What a conversation is made of. Field names are those of the transcript file, so encoding is direct.

Signatures are opaque and belong to the provider, API and model named on the assistant message that holds
them; they are replayed only there (see `AssistantMessage.same_route`).
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.core.types.usage import TokenUsage

StopReason: TypeAlias = Literal["stop", "length", "toolUse", "error", "aborted"]


class TextBlock(msgspec.Struct, frozen=True, tag_field="type", tag="text", omit_defaults=True):
    text: str
    textSignature: str | None = None


class ThinkingBlock(msgspec.Struct, frozen=True, tag_field="type", tag="thinking", omit_defaults=True):
    """Reasoning. `redacted` blocks have no readable text, only the signature (the opaque payload)."""

    thinking: str
    thinkingSignature: str | None = None
    redacted: bool = False


class ImageBlock(msgspec.Struct, frozen=True, tag_field="type", tag="image"):
    """Base64 data."""

    data: str
    mimeType: str


# `ToolCall.invalid` of a call that a small model makes again although it has just succeeded: it is not run again.
REPEATED = "done before"


class ToolCall(msgspec.Struct, frozen=True, tag_field="type", tag="toolCall", omit_defaults=True):
    """A call the model asks for.

    `invalid` is set when the model's JSON could not be read: it says why, `arguments` is then {} and the call
    is answered with an error result instead of being run.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    thoughtSignature: str | None = None
    invalid: str | None = None


ContentBlock: TypeAlias = TextBlock | ThinkingBlock | ImageBlock | ToolCall


class UserMessage(msgspec.Struct, frozen=True, tag_field="role", tag="user", omit_defaults=True):
    content: str | tuple[TextBlock | ImageBlock, ...]
    timestamp: int = msgspec.field(default_factory=int)  # a factory: it is written also when it is 0
    source: str = ""  # who wrote it, where that is nobody of ours (core/policy/taint); "" = the owner, or our own words

    @property
    def blocks(self) -> tuple[TextBlock | ImageBlock, ...]:
        return (TextBlock(self.content),) if isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else join_text(self.content)


class AssistantMessage(msgspec.Struct, frozen=True, tag_field="role", tag="assistant", omit_defaults=True):
    content: tuple[TextBlock | ThinkingBlock | ToolCall, ...]
    api: str = ""
    provider: str = ""
    model: str = ""
    usage: TokenUsage = TokenUsage()
    stopReason: StopReason = "stop"
    errorMessage: str | None = None
    timestamp: int = 0

    @property
    def text(self) -> str:
        """The visible text, blocks joined as they came."""
        return join_text(self.content)

    @property
    def thinking(self) -> str:
        return "".join(b.thinking for b in self.content if isinstance(b, ThinkingBlock))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(b for b in self.content if isinstance(b, ToolCall))

    @property
    def failed(self) -> bool:
        return self.stopReason in ("error", "aborted")

    def same_route(self, api: str, provider: str, model: str) -> bool:
        """May this message's signatures be sent there?"""
        return (self.api, self.provider, self.model) == (api, provider, model)


def read_exit_code(details: Any) -> int:
    """The exit code that the details of a tool's result tell; 0 if they tell none."""
    code = details.get("exitCode") if isinstance(details, dict) else 0
    return code if isinstance(code, int) else 0


class ToolResult(msgspec.Struct, frozen=True, tag_field="role", tag="toolResult", omit_defaults=True):
    toolCallId: str
    toolName: str
    content: tuple[TextBlock | ImageBlock, ...]
    isError: bool = False
    details: Any = None
    timestamp: int = 0
    terminate: bool = False  # the tool asks that the run end here; see tool.ToolOutput
    source: str = ""  # where untrusted content in it came from (core/policy/taint); "" = none in it

    @property
    def exit_code(self) -> int:
        """What a command said of itself when it ended; 0 for success, and for tools that run no command."""
        return read_exit_code(self.details)

    @property
    def handed(self) -> bool:
        """Does it only hold the place of what the caller of an HTTP interface will bring?"""
        return isinstance(self.details, dict) and self.details.get("handed") is True

    @property
    def text(self) -> str:
        return join_text(self.content)


Message: TypeAlias = UserMessage | AssistantMessage | ToolResult


def join_text(blocks: tuple[ContentBlock, ...]) -> str:
    """All text blocks, concatenated."""
    return "".join([b.text for b in blocks if isinstance(b, TextBlock)])
