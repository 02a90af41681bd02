"""A fake program behind the gateway: same shape as the App, answers from a script, remembers what it was given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

import msgspec

from palinurus.config.sections.gateway import GatewaySettings
from palinurus.config.settings import AgentSettings, Secret, Settings
from palinurus.core.types.channel import ChannelHttpRequest, ChannelHttpResponse
from palinurus.core.types.events import AgentEnd, AgentStart, MessageEnd, MessageStart, MessageUpdate, RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import parse_model_ref
from palinurus.core.types.messages import AssistantMessage, TextBlock, ToolResult, UserMessage
from palinurus.core.types.model import ModelFailure, ModelSpec
from palinurus.core.types.usage import TokenUsage
from palinurus.store.news import NewsListener
from palinurus.store.port import ANY_RECORD, Acceptance, InboxRow, SessionRow, StoreRecord, UsageRow
from palinurus.testing.clock import run_ready_tasks

TOKEN = "t" * 43
USAGE = TokenUsage(input=5, output=7, cacheRead=11, cacheWrite=0, totalTokens=23)


def settings(home: str = "/nowhere", **gateway: object) -> Settings:
    agents = {name: AgentSettings(name, name, "/nowhere/w") for name in ("main", "work")}
    return Settings(home, agents, "main", gateway=GatewaySettings(**{"token": Secret(TOKEN), **gateway}))  # type: ignore[arg-type]


def words(*deltas: str, end: str = "stop", failure: ModelFailure | None = None) -> list[RunEvent]:
    """The events of a plain answer."""
    message = AssistantMessage((TextBlock("".join(deltas)),))
    return [
        AgentStart("r1", "s", "x/y", 1),
        MessageStart(UserMessage("hi")),
        MessageStart(),
        MessageUpdate("hmm", "thinking"),
        *(MessageUpdate(d) for d in deltas),
        MessageEnd(message),
        AgentEnd((UserMessage("hi"), message), end, USAGE, failure),  # type: ignore[arg-type]
    ]


class Catalog:
    def find(self, text: str, agent: AgentSettings) -> ModelSpec | ModelFailure:
        ref = parse_model_ref(text)
        if ref is None or ref.provider != "acme":
            return ModelFailure("not_found", f"no model {text!r}; did you mean 'acme/one'?")
        return ModelSpec(ref, "openai-completions")


class Ledger:
    def __init__(self) -> None:
        self.rows: list[UsageRow] = []
        self.records: dict[tuple[str, str], bytes] = {}
        self.pause: Callable[[], Awaitable[None]] = run_ready_tasks

    async def list_usage(self, since: int, session: str | None = None) -> list[UsageRow]:
        return [r for r in self.rows if session in (None, r.session)]

    async def sessions(self, agent: str | None = None) -> list[SessionRow]:
        return []

    node = ""

    def watch(self, listener: NewsListener) -> Callable[[], None]:
        return lambda: None

    async def put_record(self, kind: str, key: str, data: bytes | None, *, expect: bytes | None = ANY_RECORD) -> bool:
        await self.pause()
        if expect != ANY_RECORD and self.records.get((kind, key)) != expect:
            return False
        if data is None:
            self.records.pop((kind, key), None)
        else:
            self.records[kind, key] = data
        return True

    async def get_record(self, kind: str, key: str) -> StoreRecord | None:
        data = self.records.get((kind, key))
        return None if data is None else StoreRecord(kind, key, data, 0)

    async def list_records(self, kind: str) -> list[StoreRecord]:
        return [StoreRecord(k, key, data, 0) for (k, key), data in self.records.items() if k == kind]


class FakeHost:
    """`script(inbound)` gives the events; `hold`, when set to an Event, is awaited before the first one."""

    def __init__(self, config: Settings | None = None) -> None:
        self.settings = config or settings()
        self.catalog = Catalog()
        self.store = Ledger()
        self.seen: list[Inbound] = []
        self.aborted: list[tuple[str, str]] = []
        self.invoked: list[tuple[str, str, dict[str, object], object]] = []
        self.failing: list[str] = []
        self.refuse: Exception | None = None
        self.hold: asyncio.Event | None = None
        self.outcome = "answered"
        self.note = "the note"
        self.script: Callable[[Inbound], Iterable[RunEvent] | AsyncIterator[RunEvent]] = lambda inbound: words(
            "Hel", "lo"
        )
        self.program = None
        self.webhooks = None
        self.hooked: list[tuple[str, str, ChannelHttpRequest]] = []
        self.answers: dict[tuple[str, str], ChannelHttpResponse] = {}
        self._ids: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[InboxRow]] = {}

    async def hook(self, channel: str, account: str, request: ChannelHttpRequest) -> ChannelHttpResponse | None:
        self.hooked.append((channel, account, request))
        if self.refuse:
            raise self.refuse
        return self.answers.get((channel, account))

    def follow(self, follower: object) -> Callable[[], None]:
        return lambda: None

    async def submit(self, inbound: Inbound, sink: Callable[[RunEvent], None] | None = None) -> Acceptance:
        if self.refuse:
            raise self.refuse
        if inbound.event in self._ids:
            return Acceptance(self._ids[inbound.event], True, "running")
        ident = f"item{len(self._ids)}"
        self._ids[inbound.event] = ident
        self.seen.append(inbound)
        self._tasks[ident] = asyncio.ensure_future(self._run(ident, inbound, sink or (lambda e: None)))
        return Acceptance(ident, False, "queued")

    async def _run(self, ident: str, inbound: Inbound, sink: Callable[[RunEvent], None]) -> InboxRow:
        if self.hold:
            await self.hold.wait()
        events = self.script(inbound)
        if isinstance(events, AsyncIterator):
            async for event in events:
                sink(event)
        else:
            for event in events:
                sink(event)
        body = msgspec.json.encode(inbound)
        return InboxRow(
            ident,
            inbound.event,
            inbound.session,
            "main",
            body,
            inbound.at,
            "done",
            self.outcome,
            self.note,
            1,  # type: ignore[arg-type]
        )

    async def wait(self, item_id: str) -> InboxRow:
        return await asyncio.shield(self._tasks[item_id])

    async def invoke(
        self, key: object, name: str, arguments: Mapping[str, object], sender: object
    ) -> ToolResult | None:
        self.invoked.append((str(key), name, dict(arguments), sender))
        return ToolResult("1", name, (TextBlock("done"),), False, None) if name == "ls" else None

    async def abort(self, session_key: str, reason: str) -> bool:
        self.aborted.append((session_key, reason))
        return True

    def ready(self) -> tuple[bool, list[str]]:
        return not self.failing, self.failing
