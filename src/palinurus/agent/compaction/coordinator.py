"""What all compactions of a program share, and which of them goes on: light, because it waits with the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from weakref import WeakValueDictionary

import msgspec

from palinurus.abort import Abort
from palinurus.agent.plan.runplan import RunPlan
from palinurus.agent.recorder import RunRecorder
from palinurus.clock import Clock
from palinurus.config.sections.context import CompactionSettings
from palinurus.config.settings import AgentSettings
from palinurus.core.history.tokens import CHARS_PER_TOKEN
from palinurus.core.types.messages import Message
from palinurus.core.types.model import Model
from palinurus.core.types.tool import ToolSpec
from palinurus.plugins.hooks import Hooks
from palinurus.providers.catalog import Catalog
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript
from palinurus.taping import ask_taped_now

REST = 300.0  # seconds a summariser that failed is left alone, per session

# What still stands in a session besides its messages: open sub-agent runs and the like, a line each.
Standing = Callable[[str], tuple[str, ...]]
Mark = Callable[[str, tuple[str, ...]], Awaitable[None]]  # (path, taint): see agent/marks


class CompactionServices(msgspec.Struct, frozen=True):
    """What compactions share."""

    settings: CompactionSettings
    agents: Mapping[str, AgentSettings]
    model: Model
    catalog: Catalog
    hooks: Hooks
    clock: Clock
    standing: Standing
    forget: Callable[[str], None]  # (session id): the key it was pinned to may change, its cache is gone anyway
    mark: Mark | None = None


class CompactionCoordinator:
    """One per program: what compactions share, and who is at it."""

    def __init__(self, services: CompactionServices) -> None:
        self.services = services
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._rest: dict[str, float] = {}
        self._wanted: dict[str, str] = {}
        self._tools: tuple[tuple[ToolSpec, ...], int] = ((), 0)

    def count_overhead(self, plan: RunPlan) -> int:
        """Tokens of its requests besides the messages. Sessions of one agent share their tools: counted once."""
        if self._tools[0] is not plan.specs:
            self._tools = (plan.specs, count_characters(plan.specs))
        return (len(plan.prompt.text) + self._tools[1]) // CHARS_PER_TOKEN

    def lock(self, session: str) -> asyncio.Lock:
        """Held while a session is compacted."""
        found = self._locks.get(session)
        if found is None:
            found = self._locks[session] = asyncio.Lock()
        return found

    def ask(self, session: str, instructions: str) -> None:
        """Have the run that is going compact its session before its next model call."""
        self._wanted[session] = instructions

    def pending_request(self, session: str) -> str | None:
        """What was asked for and not done yet."""
        return ask_taped_now("wish", lambda: self._wanted.get(session), str | None)

    def clear_request(self, session: str) -> None:
        self._wanted.pop(session, None)

    def resting(self, session: str) -> bool:
        """Has its summariser failed a moment ago?"""
        until = self._rest.get(session, 0.0)
        return ask_taped_now("resting", lambda: until > self.services.clock.monotonic(), bool)

    def rest(self, session: str) -> None:
        now = self.services.clock.monotonic()
        self._rest = {key: until for key, until in self._rest.items() if until > now}
        self._rest[session] = now + REST

    def end_rest(self, session: str) -> None:
        """It works again."""
        self._rest.pop(session, None)


class CompactionRun(msgspec.Struct, frozen=True):
    """A run, as far as its compactor needs it."""

    plan: RunPlan
    session: SessionRecord
    transcript: Transcript
    record: RunRecorder
    abort: Abort
    view: Callable[[], tuple[Message, ...]]  # the transcript as a request carries it


def count_characters(specs: Sequence[ToolSpec]) -> int:
    """Of what a model is told of its tools."""
    return sum(len(spec.name) + len(spec.description) + len(msgspec.json.encode(spec.parameters)) for spec in specs)
