"""What one session is shown of another's conversation: no secrets, no pictures, no thoughts, long texts cut. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from palinurus.core.types.messages import AssistantMessage, ImageBlock, Message, TextBlock, ToolCall, ToolResult
from palinurus.providers.redact import blank_secrets, redact_strings

LONGEST = 4_000  # characters of one text


class HistoryCleaner:
    """Makes messages fit to be shown; `cut` and `blanked` say what was done to any of them."""

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        self._secrets = secrets
        self.cut = False
        self.blanked = False

    def messages(self, messages: Iterable[Message], *, tools: bool) -> list[dict[str, Any]]:
        """In their order. Messages of which nothing is left are left out."""
        made = (self._message(message, tools) for message in messages if tools or not isinstance(message, ToolResult))
        return [message for message in made if message["content"]]

    def text(self, text: str, limit: int = LONGEST) -> str:
        """The text as it may be shown."""
        clean = blank_secrets(text, self._secrets)
        self.blanked = self.blanked or clean != text
        if len(clean) <= limit:
            return clean
        self.cut = True
        return f"{clean[:limit]}… ({len(clean) - limit} more characters)"

    def _message(self, message: Message, tools: bool) -> dict[str, Any]:
        role = {AssistantMessage: "assistant", ToolResult: "toolResult"}.get(type(message), "user")
        blocks = message.content if isinstance(message, AssistantMessage | ToolResult) else message.blocks
        shown: dict[str, Any] = {"role": role, "content": self._blocks(blocks, tools)}
        if isinstance(message, ToolResult):
            shown |= {"toolName": message.toolName, "isError": message.isError}
        return {**shown, "timestamp": message.timestamp}

    def _blocks(self, blocks: Sequence[Any], tools: bool) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for block in blocks:
            if isinstance(block, TextBlock) and block.text.strip():
                made.append({"type": "text", "text": self.text(block.text)})
            elif isinstance(block, ImageBlock):
                made.append({"type": "image", "mimeType": block.mimeType, "omitted": True})
            elif isinstance(block, ToolCall) and tools:
                made.append({"type": "toolCall", "name": block.name, "arguments": self._arguments(block.arguments)})
        return made

    def _arguments(self, arguments: dict[str, Any]) -> Any:
        clean = redact_strings(arguments, self._secrets)
        self.blanked = self.blanked or clean != arguments
        written = msgspec.json.encode(clean).decode()
        return clean if len(written) <= LONGEST else self.text(written)
