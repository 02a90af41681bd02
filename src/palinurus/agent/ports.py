"""What the loop touches of the world. Everything else it needs is in the plan."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from palinurus.abort import Abort
from palinurus.clock import Clock
from palinurus.core.types.approval import Approver
from palinurus.core.types.messages import Message, User
from palinurus.core.types.model import Model
from palinurus.plugins.hooks import Hooks


class Steering(Protocol):
    """Messages that arrived while the run is going."""

    @property
    def waiting(self) -> bool: ...

    def take(self) -> list[tuple[User, str]]:
        """All that wait, in order, with their inbox ids; they are then the run's."""
        ...

    def close(self) -> None:
        """The run looks no more; what comes now waits for a turn of its own."""
        ...


class Recorder(Protocol):
    """See `agent/record.py`; tests use a list."""

    def add(self, message: Message, *, absorb: tuple[str, ...] = ()) -> None: ...

    def step(self, what: str, detail: str) -> None: ...

    async def flush(self) -> None: ...


class Ports(NamedTuple):
    model: Model
    hooks: Hooks
    abort: Abort
    clock: Clock
    record: Recorder
    steering: Steering
    approver: Approver | None = None
