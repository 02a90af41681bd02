"""What the loop touches of the world. Everything else it needs is in the plan."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, cast

import msgspec

from palinurus.abort import Abort
from palinurus.agent.intents import IntentReader
from palinurus.agent.marks import TaintMarks
from palinurus.agent.promptcache import CacheSnapshot
from palinurus.clock import Clock
from palinurus.core.types.approval import Approver
from palinurus.core.types.card import CallCard
from palinurus.core.types.events import RunEvent, ToolUpdate
from palinurus.core.types.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from palinurus.core.types.model import Model, ModelEvent, ModelRequest, StopSignal
from palinurus.plugins.hooks import Hooks
from palinurus.taping import TapeLane, find_lane

CacheLook: TypeAlias = Callable[[str], CacheSnapshot | None]


class SteeringPort(Protocol):
    """Messages that arrived while the run is going."""

    @property
    def waiting(self) -> bool: ...

    def take(self) -> list[tuple[UserMessage, str]]:
        """All that wait, in order, with their inbox ids; they are then the run's."""
        ...

    def close(self) -> None:
        """The run looks no more; what comes now waits for a turn of its own."""
        ...


class RecorderPort(Protocol):
    """See `agent/recorder.py`; tests use a list."""

    def add(self, message: Message, *, absorb: tuple[str, ...] = (), called: bool = False) -> None: ...

    def call(self, answer: AssistantMessage, card: CallCard) -> None: ...

    def step(self, what: str, detail: str) -> None: ...

    async def flush(self) -> None: ...


class CompactorPort(Protocol):
    """Makes room in a conversation; see `agent/compaction/compactor.py`."""

    messages: tuple[Message, ...] | None  # after `compact`: what the model is to see; None: nothing has changed
    notices: list[str]  # what people should be told

    def due(self, messages: Sequence[Message], *, first: bool) -> str:
        """Why room is to be made before the next request; "" if not."""
        ...

    def compact(self, messages: Sequence[Message], reason: str, level: int = 0) -> AsyncIterator[RunEvent]:
        """Make it."""
        ...


class RunLane(TapeLane, Protocol):
    """A lane of a run that is recorded, or played from a tape; see `agent/tapes`."""

    def stream(self, request: ModelRequest, stop: StopSignal, model: Model, /) -> AsyncIterator[ModelEvent]: ...

    def fork(self) -> RunLane:
        """The lane of a tool call that is about to begin."""
        ...

    async def invoke(
        self, call: ToolCall, make: Callable[[], Awaitable[ToolResult]], show: Callable[[ToolUpdate], None], /
    ) -> ToolResult: ...

    async def begin(self) -> None:
        """Before anything else of a forked lane."""
        ...

    def pass_mark(self, name: str, /) -> None:
        """A place that it has reached."""
        ...

    def end(self, tell: Callable[[], None], /) -> None:
        """Its task is over; `tell` the run of it."""
        ...

    def note(self, kind: str, name: str = "", asked: object = None, given: object = None) -> object: ...

    def close(self) -> None: ...


def find_run_lane() -> RunLane | None:
    """The lane of what runs now; None: it is neither recorded nor played."""
    return cast("RunLane | None", find_lane())


class ResultCarrier(Protocol):
    """In a fleet: whole tool results, of which the model saw a part, go where their conversation goes. Raises nothing;
    what could not be carried is not there, and who asks for it is told so."""

    async def bring(self, results: str, arguments: Mapping[str, object], /) -> None:
        """Lay out what a call names. `results`: see `ToolSettings`."""
        ...

    async def share(self, results: str, text: str, /) -> None:
        """Give others what a result names, before anybody is told of it."""
        ...


class RunPorts(msgspec.Struct, frozen=True):
    model: Model
    hooks: Hooks
    abort: Abort
    clock: Clock
    record: RecorderPort
    steering: SteeringPort
    approver: Approver | None = None
    compactor: CompactorPort | None = None  # None: a conversation that does not fit ends the run
    marks: TaintMarks | None = None  # which remembered files were written under taint
    intents: IntentReader | None = None  # who reads the owner's words where the rules do not understand them
    look: CacheLook | None = None  # what was seen of a session's last request (by its id)
    confirm: Callable[[], Awaitable[None]] | None = None  # in a fleet: is the run still ours? (`Store.confirm`)
    carrier: ResultCarrier | None = None
