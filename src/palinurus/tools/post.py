"""The port of the `message` tool: who sends, and what became of it. `outbox/post.py` implements it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from palinurus.core.types.channel import ChannelAbilities, ChannelAction, SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply


class MessageDelivery(NamedTuple):
    """What became of a message, as the outbox has it: pending, sending, sent, failed."""

    state: str
    receipt: str = ""
    error: str = ""
    again: bool = False  # it was in the outbox before


class KnownChat(NamedTuple):
    """A chat somebody has written from, and what it is called."""

    name: str
    target: Target


class MessagePort(Protocol):
    """Who sends."""

    def channels(self) -> Mapping[str, ChannelAbilities]:
        """The channels there are, by name."""
        ...

    def accounts(self, channel: str) -> tuple[str, ...]:
        """The accounts of one; the first is used where none is named."""
        ...

    async def send(self, reply: Reply, wait: float) -> MessageDelivery:
        """Through the outbox; one client id is one message. Waits so many seconds for its receipt. Raises DiskFull."""
        ...

    async def act(self, target: Target, act: ChannelAction) -> SendReceipt | SendFailure:
        """At once, and not again. Raises nothing."""
        ...

    async def act_once(self, ident: str, target: Target, act: ChannelAction) -> SendReceipt | SendFailure | None:
        """The same for what would show twice: of one `ident` it is done once, also after a crash, and told again from
        the record. None if nobody knows whether it was done."""
        ...

    async def chats(self) -> list[KnownChat]:
        """Where people have written from."""
        ...
