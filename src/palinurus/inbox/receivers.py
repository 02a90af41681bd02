"""What commands and the gateway see of the chat channels: who is let in, which accounts run, a way to say something.

`app/receivers.py` implements the port.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from palinurus.core.types.channel import ChannelStatus, SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.inbox.pairing import ChatPairing
from palinurus.tools.program.signin import SignInsPort


class ChannelAccountState(msgspec.Struct, frozen=True):
    """One account of one channel. `running`: somebody receives there."""

    channel: str
    account: str
    status: ChannelStatus
    running: bool
    dm: str = ""  # dmPolicy; "" where nobody configured the channel


class DeliveryStatus(msgspec.Struct, frozen=True):
    """What became of a message we sent. `state`: pending, sent, failed."""

    id: str
    state: str
    receipt: str = ""
    error: str = ""


class ReceiversPort(Protocol):
    def all(self) -> tuple[ChannelAccountState, ...]:
        """Every account, by channel."""
        ...

    def list_missing(self) -> dict[str, str]:
        """Channels whose library is not here, with the command that brings it."""
        ...

    async def start(self, channel: str) -> bool:
        """Receive there (again). False if somebody does already. Raises NotFound."""
        ...

    async def stop(self, channel: str) -> bool:
        """Receive there no more, until `start` or a restart. False if nobody did. Raises NotFound."""
        ...

    async def logout(self, channel: str, account: str) -> str:
        """Give up the sign-in of an account; "" or why that cannot be. Raises NotFound."""
        ...

    async def send(self, target: Target, text: str, ident: str, wait: float) -> DeliveryStatus:
        """Send a message through the outbox and wait so many seconds for its receipt. One `ident` is one message.

        Raises NotFound (no such channel), DiskFull."""
        ...

    async def act(self, target: Target, action: str, args: dict[str, Any]) -> SendReceipt | SendFailure:
        """Do something else in a chat: react, edit, delete, pin, unpin, poll, thread-create, read; at once, not again.

        Raises NotFound (no such channel), BadRequest (it cannot do that, or what is missing)."""
        ...


class ChatChannels(msgspec.Struct, frozen=True):
    """All of it."""

    pairing: ChatPairing
    say: Callable[[Reply], Awaitable[None]]  # a notice, through the outbox
    receivers: ReceiversPort
    signins: SignInsPort | None = None
