"""A reply on its way out: the pieces a turn produced, and the port of the channels that take them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeAlias

import msgspec

from palinurus.core.types.events import Event
from palinurus.core.types.inbound import Inbound, Target

ReplyKind: TypeAlias = Literal["final", "block", "tool", "notice", "reasoning"]


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message for a person. `client_id` is stable across retries: platforms that take one can dedupe on it."""

    target: Target
    text: str
    client_id: str
    kind: ReplyKind = "final"
    reply_to: str = ""
    media: tuple[str, ...] = ()
    voice: bool = False


class Sent(msgspec.Struct, frozen=True):
    """The platform has it. `message_id` is the platform's."""

    message_id: str


class NotSent(msgspec.Struct, frozen=True):
    """It did not arrive (`uncertain`: nobody knows). `retry_after` in seconds; None with `fatal` means never."""

    reason: str
    fatal: bool = False
    uncertain: bool = False
    retry_after: float | None = None


Submit: TypeAlias = Callable[[Inbound], Awaitable[str]]


class Channel(Protocol):
    """A way people reach the agent. `run` until cancelled; `send` returns a value and raises nothing."""

    @property
    def name(self) -> str: ...

    @property
    def dedupes(self) -> bool:
        """True if sending the same client_id twice shows one message."""
        ...

    def run(self, submit: Submit) -> Awaitable[None]:
        """Receive. `await submit(inbound)` returns the message's id once it is on disk; acknowledge only then."""
        ...

    def send(self, reply: Reply) -> Awaitable[Sent | NotSent]: ...

    def find(self, reply: Reply) -> Awaitable[Sent | None]:
        """Read back: was a reply with this client_id already shown? None also when the platform cannot tell."""
        ...


class Show(msgspec.Struct, frozen=True):
    """How much of a run people see besides the answer."""

    verbose: Literal["off", "on", "full"] = "off"
    reasoning: Literal["off", "on", "stream"] = "off"
    trace: bool = False
    detail: Literal["explain", "raw"] = "explain"  # toolProgressDetail


class Speaker(Protocol):
    """Turns the events of one run into what people see. Fed by the turn, closed when it settles."""

    def feed(self, event: Event) -> tuple[Reply, ...]:
        """Replies that go out now, while the run is going: tool lines, blocks. Their client ids are stable, so a
        resumed run does not say them again."""
        ...

    def close(self) -> tuple[Reply, ...]:
        """The replies still to be delivered, in order; empty for a chosen silence."""
        ...
