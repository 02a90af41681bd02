"""What several test files share: a plan without disk, ports without a world."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from palinurus.abort import Abort
from palinurus.agent.mailbox import Mailbox
from palinurus.agent.plan.runplan import ModelCandidate, RunLimits, RunPlan
from palinurus.agent.ports import RunPorts
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.types.card import CallCard
from palinurus.core.types.events import RunEvent
from palinurus.core.types.inbound import Inbound, Route, Sender, Target
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import AssistantMessage, Message, UserMessage
from palinurus.core.types.model import Model, Prompt
from palinurus.core.types.outbound import RunVisibility
from palinurus.core.types.tool import Tool, ToolOutput, ToolSettings, make_output
from palinurus.inbox.message import InboxMessage, MessageReader
from palinurus.plugins.hooks import Hooks
from palinurus.testing.clock import FakeClock
from palinurus.testing.model import make_model_info


def inbound(text: str = "hello", **changes: Any) -> Inbound:
    return Inbound(
        **{"target": Target("fake", "chat"), "sender": Sender("human"), "event": "", "text": text, "at": 0, **changes}
    )


def read(message: Inbound) -> InboxMessage:
    """As the dispatcher reads it, where there is one agent."""
    reader = MessageReader(Settings("/h", {"main": AgentSettings("main", "main", "/w")}, "main"))
    return reader.read(message, reader.route(message))


def is_control(message: Inbound) -> bool:
    """Is it for the program, not for the model?"""
    return read(message).control


def tool(name: str, run: Any = None, **changes: Any) -> Tool:
    """A tool that says its arguments."""

    async def echo(ctx: Any, **args: Any) -> ToolOutput:
        return make_output(f"{name} {args}")

    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    return Tool(**{"name": name, "description": name, "parameters": schema, "run": run or echo, **changes})


def plan(*tools: Tool, history: tuple[Message, ...] = (), limits: RunLimits = RunLimits(), **changes: Any) -> RunPlan:
    message = inbound()
    key = SessionKey("main", "main")
    fields: dict[str, Any] = {
        "id": "run",
        "item": "item",
        "route": Route("main", key, "main"),
        "inbound": message,
        "session_id": "sid",
        "transcript": "agents/main/sessions/sid.jsonl",
        "choices": (ModelCandidate(make_model_info()),),
        "sampling": {},
        "prompt": Prompt("You are a test."),
        "history": history,
        "opening": (UserMessage("hello"),),
        "tools": {t.name: t for t in tools},
        "specs": tuple(t.spec for t in tools),
        "settings": ToolSettings(),
        "limits": limits,
        "workspace": "/nowhere",
        "show": RunVisibility(),
        "started": 0,
    }
    return RunPlan(**{**fields, **changes})


class Notes:
    """A recorder that keeps a diary: messages, flushes and steps in the order they happened."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.diary: list[str] = []
        self.absorbed: list[str] = []
        self.cards: list[CallCard] = []

    def add(self, message: Message, *, absorb: tuple[str, ...] = (), called: bool = False) -> None:
        self.messages.append(message)
        self.absorbed.extend(absorb)
        self.diary.append(f"add {type(message).__name__}")

    def call(self, answer: AssistantMessage, card: CallCard) -> None:
        self.cards.append(card)

    def step(self, what: str, detail: str) -> None:
        pass

    async def flush(self) -> None:
        self.diary.append("flush")


def ports(model: Model, notes: Notes | None = None, **changes: Any) -> RunPorts:
    base = RunPorts(model, Hooks(), Abort(), FakeClock(0), notes or Notes(), Mailbox())
    return msgspec.structs.replace(base, **changes)


async def collect(events: Any) -> list[RunEvent]:
    return [event async for event in events]


def kinds(events: list[RunEvent]) -> list[str]:
    """The seeds' names of the events."""
    return [event.__struct_config__.tag for event in events]  # type: ignore[misc]


def find_programs(word: str) -> list[int]:
    """The processes of this machine with `word` in their command lines, where words end with a zero byte. Other copies
    of these tests may be running beside them: the word is one that nobody else has."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            found += [int(name)] if word.encode() in Path(f"/proc/{name}/cmdline").read_bytes() else []
        except OSError:  # it has ended
            continue
    return found
