"""What plugins bring for other agents (MCP): resources and prompts; and who is there while one of them calls a tool.

A tool that is called by MCP may tell its caller how far it is, ask its person something, or borrow its model:
`find_mcp_peer()` is that caller, None in a run of our own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

McpLogLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
MCP_CONTENT = "mcpContent"  # in a tool's details: blocks that other agents get instead of what our model reads


class McpPeer(Protocol):
    """The client at the other end of a call. Whoever waits here is cancelled when the client cancels its call."""

    def can(self, ability: str) -> bool:
        """Did it say that it has that: elicitation, sampling, roots?"""
        ...

    def log(self, level: McpLogLevel, text: str) -> None:
        """Told to clients that want to know of such things."""
        ...

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Told to clients that asked for it with the call."""
        ...

    def elicit(self, message: str, schema: Mapping[str, Any], name: str = "") -> Awaitable[dict[str, Any]]:
        """Its person's answer to a form: `action`, `content`. `name`: of the question, where the protocol has names.
        Raises ToolFailure: the client cannot ask."""
        ...

    def sample(self, messages: Sequence[Mapping[str, Any]], max_tokens: int) -> Awaitable[dict[str, Any]]:
        """What its model says. Raises ToolFailure: it lends none."""
        ...

    def roots(self) -> Awaitable[list[dict[str, Any]]]:
        """The folders that its person opened. Raises ToolFailure: it tells none."""
        ...

    def rest(self) -> None:
        """Close the connection of a long call: the client comes back for the rest."""
        ...

    def defer(self, name: str = "", *, needed: bool = False) -> bool:
        """It will take long: the client goes, and comes back for the result (a task of that `name`, or of a random
        one). False: this client waits, as for every call. Raises ToolFailure: it would, and `needed` forbids it."""
        ...


MCP_PEER: ContextVar[McpPeer | None] = ContextVar("mcp peer", default=None)


def find_mcp_peer() -> McpPeer | None:
    """Who called this tool by MCP."""
    return MCP_PEER.get()


class PluginResource(msgspec.Struct, frozen=True):
    """Something to read. A `uri` with {names} is a pattern: `read` gets what stands in their place."""

    uri: str
    name: str
    read: Callable[..., str | bytes | Awaitable[str | bytes]]
    about: str = ""
    mime: str = "text/plain"


class PromptArgument(msgspec.Struct, frozen=True):
    name: str
    about: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()  # what clients may complete it with


class PluginPrompt(msgspec.Struct, frozen=True):
    """A prompt: `make(**arguments)` says it, as one text or as messages of MCP (role, content)."""

    name: str
    about: str
    make: Callable[..., str | list[dict[str, Any]] | Awaitable[str | list[dict[str, Any]]]]
    arguments: tuple[PromptArgument, ...] = ()
