"""What the channel needs of a WhatsApp client: events in, calls out. `client.py` does it with neonize; tests with a
fake. People and groups are JIDs without device part, as text: 491701234567@s.whatsapp.net, 1234@lid, 1-2@g.us.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import msgspec

from palinurus.channels.intake import RemoteFile
from palinurus.channels.kit import ChannelFile


class WhatsAppQuote(msgspec.Struct, frozen=True):
    """A message that is answered. `sender` "" is ourselves."""

    id: str
    sender: str
    text: str = ""


class WhatsAppMessage(msgspec.Struct, frozen=True):
    """A message. `also`: the sender's other names, as WhatsApp tells them. `at` in ms since 1970."""

    id: str
    chat: str
    sender: str
    text: str
    at: int
    also: tuple[str, ...] = ()
    name: str = ""
    group: bool = False
    mine: bool = False
    mentions: tuple[str, ...] = ()
    quoted: WhatsAppQuote | None = None
    media: RemoteFile | None = None
    forwarded: bool = False


class WhatsAppReady(msgspec.Struct, frozen=True):
    """Connected. `me`: our own JIDs."""

    me: tuple[str, ...]
    name: str = ""


class WhatsAppAway(msgspec.Struct, frozen=True):
    """The connection is gone; the client looks for another by itself."""

    reason: str


class WhatsAppSignedOut(msgspec.Struct, frozen=True):
    """We are signed out: nothing comes until a person signs in again."""

    reason: str


class WhatsAppQrCode(msgspec.Struct, frozen=True):
    """Nobody is signed in: a phone has to read this as a QR code."""

    text: str


class WhatsAppCrash(msgspec.Struct, frozen=True):
    """The client itself ended; it has to be begun again."""

    reason: str


WhatsAppEvent: TypeAlias = (
    WhatsAppMessage | WhatsAppReady | WhatsAppAway | WhatsAppSignedOut | WhatsAppQrCode | WhatsAppCrash
)


class WhatsAppPost(msgspec.Struct, frozen=True):
    """A message to be shown."""

    text: str
    file: ChannelFile | None = None
    voice: bool = False
    quoted: WhatsAppQuote | None = None


class WhatsAppRefusal(Exception):
    """WhatsApp or the client did not do it. The text is theirs; `sending` says that the message may be under way."""

    def __init__(self, text: str, *, sending: bool = False) -> None:
        super().__init__(text)
        self.sending = sending


class WhatsAppClient(Protocol):
    """One linked device. Every call may raise Refused."""

    async def start(self, hear: Callable[[WhatsAppEvent], None]) -> None:
        """Connect, and stay so. Returns at once; `hear` is called in the loop."""
        ...

    async def stop(self) -> None: ...

    async def send(self, to: str, post: WhatsAppPost) -> str:
        """Returns WhatsApp's id of the message."""
        ...

    async def edit(self, to: str, ident: str, text: str) -> None: ...

    async def delete(self, to: str, ident: str) -> None: ...

    async def react(self, to: str, sender: str, ident: str, emoji: str) -> None:
        """`sender` "" is ourselves; an empty emoji takes ours away."""
        ...

    async def typing(self, to: str) -> None: ...

    async def read(self, to: str, sender: str, ident: str) -> None: ...

    async def fetch(self, media: RemoteFile) -> bytes: ...

    async def title(self, group: str) -> str: ...

    async def logout(self) -> None: ...
