"""An office: a real store, a real catalog, a controller, and a dispatcher that only takes notes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from palinurus.config.load import load_config
from palinurus.core.types.events import AgentEnd, MessageUpdate, RunEvent
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import AssistantMessage, TextBlock
from palinurus.core.types.outbound import Reply
from palinurus.core.types.usage import TokenUsage
from palinurus.inbox.commands.command import CommandContext
from palinurus.inbox.control import CommandController
from palinurus.inbox.message import InboxMessage, MessageReader
from palinurus.inbox.route import build_item
from palinurus.plugins.hooks import Hooks
from palinurus.providers.catalog import Catalog
from palinurus.services.inbox import InboxPort, StopReport
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcripts
from palinurus.store.factory import open_store
from palinurus.store.port import Acceptance, InboxItem, InboxRow, RunClaim, Settlement
from palinurus.testing.clock import FakeClock
from support import inbound, tool

KEY = SessionKey("main", "main")
OWNER = Sender("me", owner=True)

CONFIG: dict[str, Any] = {
    "models": {
        "providers": {
            "fake": {
                "baseUrl": "http://127.0.0.1:9/v1",
                "apiKey": "k",
                "models": [{"id": "m", "reasoning": True}, {"id": "dull", "reasoning": False}],
            },
            "big": {
                "baseUrl": "http://127.0.0.1:9/v1",
                "apiKey": "k",
                "models": [
                    {"id": "deep-1", "reasoning": True, "compat": {"supportedReasoningEfforts": ["low", "xhigh"]}}
                ],
            },
        }
    },
    "agents": {"defaults": {"model": {"primary": "fake/m"}, "models": {"big/deep-1": {"alias": "deep"}}}},
}


class Office:
    """`say` types something and returns what is answered."""

    def __init__(self, home: Path, program: CommandContext, store: Any, clock: FakeClock) -> None:
        self.home = home
        self.program = program
        self.store = store
        self.clock = clock
        self.running: set[str] = set()
        self.waiting = 0
        self.aborted: list[tuple[str, str]] = []
        self.submitted: list[Inbound] = []
        self.replied: list[Reply] = []
        self.events: list[RunEvent] = []
        self.answer = "the model's answer"
        self.hooked: list[tuple[str, dict[str, Any]]] = []
        self.inbox: Any = SimpleNamespace(
            stop=self._stop,
            running=self.running.__contains__,
            submit=self._submit,
            wait=self._wait,
        )
        self.program = msgspec.structs.replace(program, inbox=self.inbox)
        self.controller = CommandController(self.program, self.replied.extend)
        self._count = 0

    async def _stop(self, session: str, reason: str, before: str = "", children: bool = True) -> StopReport:
        if session not in self.running:
            return StopReport(False)
        self.aborted.append((session, reason))
        self.running.discard(session)
        return StopReport(True, self.waiting)

    async def _submit(self, message: Inbound, sink: Callable[[RunEvent], None] | None = None) -> Acceptance:
        self.submitted.append(message)
        item = build_item(message, self.read(message).route, self.clock)
        accepted: Acceptance = await self.store.accept(item, claim=True)
        if accepted.claim is not None:
            if sink is not None:
                sink(MessageUpdate(self.answer))
                sink(AgentEnd((AssistantMessage((TextBlock(self.answer),)),), "stop", TokenUsage()))
            await self.store.settle(accepted.claim, Settlement("answered", self.answer))
        return accepted

    async def _wait(self, ident: str) -> InboxRow:
        row = await self.store.item(ident)
        assert row is not None
        return row

    def message(self, text: str, **changes: Any) -> Inbound:
        return inbound(text, **{"target": Target("telegram", "7"), "sender": OWNER, **changes})

    def read(self, message: Inbound) -> InboxMessage:
        """As the dispatcher reads it."""
        reader = MessageReader(self.program.settings, self.program.commands)
        return reader.read(message, reader.route(message))

    async def claim(self, message: Inbound) -> RunClaim:
        """Accepted as the dispatcher accepts controls."""
        self._count += 1
        item = build_item(message, self.read(message).route, self.clock)
        item = InboxItem(item.id, f"control/{self._count}", f"control:{KEY}", "control", item.body, item.at)
        accepted: Acceptance = await self.store.accept(item, claim=True)
        assert accepted.claim is not None
        return accepted.claim

    async def say(self, text: str, **changes: Any) -> str:
        message = self.message(text, **changes)
        assert self.read(message).control, text
        claim = await self.claim(message)
        await self.controller.turn(claim, self.read(message), self)
        row = await self.store.item(claim.id)
        assert row is not None and row.state == "done"
        return str(row.note)

    def show(self, event: RunEvent) -> None:
        self.events.append(event)

    def absorbed(self, items: tuple[str, ...]) -> None:
        raise AssertionError("controls take no other messages in")

    async def record(self) -> SessionRecord | None:
        row = await self.store.session(str(KEY))
        return SessionRecord.decode(row.data) if row else None

    async def stored(self) -> dict[str, Any]:
        """What the session's record says, without its times and names."""
        record = await self.record()
        plain = json.loads(record.encode()) if record else {}
        gone = ("sessionId", "updatedAt", "sessionStartedAt", "lastInteractionAt", "chatType")
        return {name: value for name, value in plain.items() if name not in gone}

    def listen(self, *points: str) -> None:
        for point in points:
            self.program.hooks.on(point, lambda payload, at=point: self.hooked.append((at, payload)))


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    home = tmp_path / "home"
    home.mkdir()
    (home / "palinurus.json").write_text(json.dumps(CONFIG))
    settings = load_config(str(home), {}).settings
    clock = FakeClock()
    store = await open_store(str(home), clock)
    program = CommandContext(
        settings,
        {},
        Catalog(settings, {}),
        store,
        Hooks(),
        clock,
        Transcripts(str(home)),
        inbox=cast(InboxPort, None),  # the office is one
        tools={name: tool(name) for name in ("read", "exec")},
    )
    yield Office(home, program, store, clock)
    await store.close()
