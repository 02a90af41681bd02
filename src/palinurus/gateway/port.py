"""What the gateway needs of the program behind it. `palinurus.app.App` has this shape; tests bring a fake."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.types.channel import ChannelHttpRequest, ChannelHttpResponse
from palinurus.core.types.events import RunEvent
from palinurus.core.types.inbound import Inbound, Sender
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import ToolResult
from palinurus.core.types.model import ModelFailure, ModelSpec
from palinurus.core.webhooks import WebhookAnswer, WebhookHead
from palinurus.inbox.commands.command import CommandContext
from palinurus.inbox.feed import RunFollower
from palinurus.store.news import NewsListener
from palinurus.store.port import Acceptance, InboxRow, SessionRow, UsageRow
from palinurus.store.records import RecordStore

Sink = Callable[[RunEvent], None]


class ModelFinder(Protocol):
    """Finding a model by what a person wrote."""

    def find(self, text: str, agent: AgentSettings) -> ModelSpec | ModelFailure: ...


class GatewayStore(RecordStore, Protocol):
    """The parts of the store that say what was used, which sessions there are, and which devices are paired."""

    async def list_usage(self, since: int, session: str | None = None) -> list[UsageRow]: ...

    async def sessions(self, agent: str | None = None) -> list[SessionRow]: ...

    def watch(self, listener: NewsListener) -> Callable[[], None]: ...


class WebhookPort(Protocol):
    """What programs outside may start."""

    def judge_head(self, head: WebhookHead) -> int | WebhookAnswer:
        """Judge a request before its body is read: how many bytes that may have, or what is answered at once."""
        ...

    async def take(self, head: WebhookHead, body: bytes) -> WebhookAnswer:
        """Do what it asks. Durable when it returns. Raises PalinurusError kinds of `submit`."""
        ...


class GatewayHost(Protocol):
    """The program behind the door."""

    @property
    def settings(self) -> Settings: ...

    @property
    def catalog(self) -> ModelFinder: ...

    @property
    def store(self) -> GatewayStore: ...

    @property
    def program(self) -> CommandContext | None:
        """What commands may use; None: this host has no sessions to show."""
        ...

    @property
    def webhooks(self) -> WebhookPort | None:
        """None: this host has none."""
        ...

    async def hook(self, channel: str, account: str, request: ChannelHttpRequest) -> ChannelHttpResponse | None:
        """A chat platform's request, to the account it names; None: there is no such account.

        Raises Draining, QueueFull, DiskFull, BadRequest.
        """
        ...

    def follow(self, follower: RunFollower, everywhere: Callable[[], bool] | None = None) -> Callable[[], None]:
        """See every message of every session; with `everywhere` those of other nodes, too, while it says that somebody
        looks. Returns the function that ends it."""
        ...

    async def submit(self, inbound: Inbound, sink: Sink | None = None) -> Acceptance:
        """Durable when it returns; `sink` sees every event of the run.

        Raises Draining, QueueFull, DiskFull, BadRequest.
        """
        ...

    async def wait(self, item_id: str) -> InboxRow:
        """Until the message's outcome is on disk."""
        ...

    async def invoke(
        self, key: SessionKey, name: str, arguments: Mapping[str, Any], sender: Sender
    ) -> ToolResult | ModelFailure | None:
        """One tool, outside any run; None: there is no such tool for that session's agent."""
        ...

    async def abort(self, session_key: str, reason: str) -> bool:
        """Stop the running turn of a session. False if none runs."""
        ...

    def ready(self) -> tuple[bool, list[str]]:
        """Ready for messages, and what is failing if not."""
        ...
