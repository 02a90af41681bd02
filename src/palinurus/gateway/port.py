"""What the gateway needs of the program behind it. `palinurus.app.App` has this shape; tests bring a fake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.types.events import Event
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.model import Failure, ModelInfo
from palinurus.store.port import Accepted, ItemRow, Spent

Sink = Callable[[Event], None]


class Catalog(Protocol):
    """Finding a model by what a person wrote."""

    def find(self, text: str, agent: AgentSettings) -> ModelInfo | Failure: ...


class Ledger(Protocol):
    """The part of the store that says what was used."""

    async def spent(self, since: int, session: str | None = None) -> list[Spent]: ...


class Host(Protocol):
    """The program behind the door."""

    @property
    def settings(self) -> Settings: ...

    @property
    def catalog(self) -> Catalog: ...

    @property
    def store(self) -> Ledger: ...

    async def submit(self, inbound: Inbound, sink: Sink | None = None) -> Accepted:
        """Durable when it returns; `sink` sees every event of the run.

        Raises Draining, QueueFull, DiskFull, BadRequest.
        """
        ...

    async def wait(self, item_id: str) -> ItemRow:
        """Until the message's outcome is on disk."""
        ...

    def abort(self, session_key: str, reason: str) -> bool:
        """Stop the running turn of a session. False if none runs."""
        ...

    def ready(self) -> tuple[bool, list[str]]:
        """Ready for messages, and what is failing if not."""
        ...
