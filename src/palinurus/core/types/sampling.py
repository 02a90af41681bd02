"""What a tool server asks a model of ours (MCP's sampling), and what it is told. Values only."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal, Protocol

import msgspec


class SamplingRequest(msgspec.Struct, frozen=True):
    """All of it is the server's."""

    messages: tuple[tuple[Literal["user", "assistant"], str], ...]
    max_tokens: int
    system: str = ""
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()  # names of models, or parts of them, the best first


class SamplingAnswer(msgspec.Struct, frozen=True):
    text: str
    model: str
    cut: bool = False  # it was longer than the server wanted


class SamplerPort(Protocol):
    """Who asks the model."""

    def choose(self, request: SamplingRequest, agent: str) -> str:
        """The model that would answer: the first hint that names one the owner has, else the agent's."""
        ...

    def sample(self, request: SamplingRequest, agent: str, session: str) -> Awaitable[SamplingAnswer]:
        """Its answer; the session's budget pays. Raises ToolFailure."""
        ...
