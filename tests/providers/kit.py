"""Small things the provider tests share: requests, recorded streams, and event lists in comparable form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from palinurus.config.sections.models import ProviderSettings
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import Message, UserMessage
from palinurus.core.types.model import CallDelta, ModelEvent, ModelRequest, ModelSpec, Prompt, StreamDecoder, TextDelta
from palinurus.core.types.model import ThinkingDelta as Thought
from palinurus.core.types.tool import ToolSpec

STREAMS = Path(__file__).parent.parent / "wire"
READ = ToolSpec("read", "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}})
LS = ToolSpec("ls", "List", {"type": "object", "properties": {}})


def info(api: str = "openai-completions", **changes: Any) -> ModelSpec:
    return msgspec.structs.replace(ModelSpec(ModelRef("p", "m"), api, "http://127.0.0.1:1/v1"), **changes)


def request(*messages: Message, model: ModelSpec | None = None, **changes: Any) -> ModelRequest:
    plain = ModelRequest(model or info(), Prompt("You are a test.", "Now."), messages or (UserMessage("hi"),))
    return msgspec.structs.replace(plain, **changes)


def recorded(name: str) -> bytes:
    return (STREAMS / name).read_bytes()


def joined(events: Iterable[ModelEvent]) -> list[ModelEvent]:
    """Neighbouring deltas of one kind made one: how they are cut depends on the network."""
    out: list[ModelEvent] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta):
            out[-1] = TextDelta(last.text + event.text)
        elif isinstance(event, Thought) and isinstance(last, Thought):
            out[-1] = Thought(last.text + event.text)
        elif isinstance(event, CallDelta) and isinstance(last, CallDelta) and last.index == event.index:
            out[-1] = CallDelta(last.index, last.json + event.json)
        else:
            out.append(event)
    return out


def decoded(
    make: Callable[[ModelRequest], StreamDecoder], pieces: Iterable[bytes], asked: ModelRequest
) -> list[ModelEvent]:
    decoder = make(asked)
    events: list[ModelEvent] = []
    for piece in pieces:
        events += decoder.feed(piece)
    return joined(events + decoder.close())


def agent(**changes: Any) -> AgentSettings:
    return msgspec.structs.replace(AgentSettings("main", "main", "/nowhere"), **changes)


def settings(*providers: ProviderSettings, **changes: Any) -> Settings:
    return Settings("/nowhere", {"main": agent(**changes)}, "main", {p.id: p for p in providers})
