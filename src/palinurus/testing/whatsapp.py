"""WhatsApp with people, behind the port of our client: neonize's Go part speaks to the real servers only, so the fake
stands in its place. What people say while nobody is connected waits, and is told once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from palinurus.channels.intake import RemoteFile
from palinurus.channels.whatsapp import port
from palinurus.channels.whatsapp.channel import WhatsAppChannel
from palinurus.core.types.channel import Channel, SendTrouble
from palinurus.testing.platform import FakePlatform, HumanMessage, VisibleMessage, make_channel_kit

OURS = "4915550000001@s.whatsapp.net"
LID = "900001@lid"
HUMAN = "4915551111111@s.whatsapp.net"
GROUP = "120363000000000001@g.us"
START = 1_700_000_000_000
# What whatsmeow says to each trouble.
FAULTS: dict[SendTrouble, str] = {
    "down": "websocket not connected",
    "limited": "server returned error 429: rate-overlimit",
    "media": "upload: failed to upload media",
    "signed_out": "the store doesn't contain a device JID",
    "blocked": "server returned error 405",
    "gone": "no LID found for 49@s.whatsapp.net from server",
    "long": "message too long",
    "refused": "server returned error 406",
}


class FakeWhatsApp(FakePlatform):
    """Implements `FakePlatform`."""

    name = "whatsapp"
    troubles: ClassVar[tuple[SendTrouble, ...]] = ("cut", *FAULTS)

    def __init__(self) -> None:
        super().__init__()
        self.linked = True
        self.files: dict[str, bytes] = {}
        self.seen: list[dict[str, Any]] = []
        self.calls: list[tuple[Any, ...]] = []  # typing, react, read
        self.up = True
        self._waiting: list[port.WhatsAppMessage] = []
        self._client: FakeWhatsAppClient | None = None
        self._count = 0
        self._people: dict[str, str] = {"human": HUMAN}

    @property
    def section(self) -> dict[str, Any]:
        return {}

    def client(self) -> FakeWhatsAppClient:
        """A new client, as after a start of the program."""
        return FakeWhatsAppClient(self)

    def channel(self, folder: str) -> Channel:
        return WhatsAppChannel(make_channel_kit("whatsapp", folder, self.section), self.client())

    # --- people

    def person(self, name: str = "") -> str:
        made = f"49155522222{len(self._people):02}@s.whatsapp.net"
        return self._people.setdefault(name or "human", made)

    async def _say(self, said: HumanMessage, more: dict[str, Any]) -> str:
        self._count += 1
        who, ident = self.person(said.sender), said.event or f"3EB0{self._count:08X}"
        words = f"@{LID.partition('@')[0]} {said.text}" if said.mention else said.text
        made = port.WhatsAppMessage(
            ident,
            GROUP if said.chat == "group" else who,
            who,
            words,
            at=START + self._count,
            also=(f"{who[:13]}0@lid",),
        )
        made = msgspec.structs.replace(made, name=(said.sender or "human").title(), group=said.chat == "group")
        made = msgspec.structs.replace(made, mentions=(LID,) if said.mention else (), **more)
        self._waiting += [made] * said.times
        self.tell()
        return ident

    def tell(self) -> None:
        """Everything that waits, to whoever is connected."""
        if self._client is not None and self.up and self.linked:
            for one in self._waiting:
                self._client.hear(one)
            self._waiting.clear()

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        where = GROUP if chat == "group" else self.person(chat)
        return [
            VisibleMessage(one["id"], _read(one["text"]), tuple(one["media"]), (), reply_to=one["quote"])
            for one in self.seen
            if one["to"] == where
        ]

    async def cut(self) -> None:
        self.up = False
        if self._client is not None:
            self._client.hear(port.WhatsAppAway("the connection to WhatsApp broke"))

    async def mend(self) -> None:
        self.up = True
        if self._client is not None:
            self._client.hear(port.WhatsAppReady((OURS, LID), "Pal"))
            self.tell()

    def unlink(self) -> None:
        """The phone's owner takes us off the list of devices."""
        self.linked = False
        if self._client is not None:
            self._client.hear(port.WhatsAppSignedOut("the phone has unlinked us"))

    def scan(self) -> None:
        """Somebody reads the code with the phone."""
        self.linked = True
        if self._client is not None:
            self._client.hear(port.WhatsAppReady((OURS, LID), "Pal"))

    # --- the servers

    def on_connect(self, client: FakeWhatsAppClient) -> None:
        self._client = client
        if not self.linked:
            client.hear(port.WhatsAppQrCode("2@abc,def"))
        elif self.up:
            client.hear(port.WhatsAppReady((OURS, LID), "Pal"))
            self.tell()

    def on_disconnect(self, client: FakeWhatsAppClient) -> None:
        if self._client is client:
            self._client = None

    def post(self, to: str, post: port.WhatsAppPost) -> str:
        if not self.up:
            raise port.WhatsAppRefusal("websocket not connected")
        fault = self.next_fault()
        if fault in FAULTS:
            raise port.WhatsAppRefusal(FAULTS[fault], sending=True)
        self._count += 1
        ident = f"3EB0F{self._count:07X}"
        media = [post.file.name] if post.file else []
        quote = post.quoted.id if post.quoted else ""
        self.seen.append({"id": ident, "to": to, "text": post.text, "media": media, "quote": quote, "post": post})
        if fault == "cut":
            raise port.WhatsAppRefusal("timed out waiting for message send response", sending=True)
        return ident


class FakeWhatsAppClient:
    """Implements `channels.whatsapp.port.WhatsAppClient`."""

    def __init__(self, people: FakeWhatsApp) -> None:
        self._people = people
        self._hear: Callable[[port.WhatsAppEvent], None] | None = None

    def hear(self, event: port.WhatsAppEvent) -> None:
        if self._hear is not None:
            self._hear(event)

    async def start(self, hear: Callable[[port.WhatsAppEvent], None]) -> None:
        self._hear = hear
        self._people.on_connect(self)

    async def stop(self) -> None:
        self._hear = None
        self._people.on_disconnect(self)

    async def send(self, to: str, post: port.WhatsAppPost) -> str:
        return self._people.post(to, post)

    async def edit(self, to: str, ident: str, text: str) -> None:
        self._one(ident)["text"] = text

    async def delete(self, to: str, ident: str) -> None:
        self._people.seen.remove(self._one(ident))

    async def react(self, to: str, sender: str, ident: str, emoji: str) -> None:
        self._people.calls.append(("react", to, sender, ident, emoji))

    async def typing(self, to: str) -> None:
        self._people.calls.append(("typing", to))

    async def read(self, to: str, sender: str, ident: str) -> None:
        self._people.calls.append(("read", to, sender, ident))

    async def fetch(self, media: RemoteFile) -> bytes:
        if media.source not in self._people.files:
            raise port.WhatsAppRefusal("download failed with status code 410")
        return self._people.files[media.source]

    async def title(self, group: str) -> str:
        return "The group"

    async def logout(self) -> None:
        self._people.linked = False

    def _one(self, ident: str) -> dict[str, Any]:
        found = next((one for one in self._people.seen if one["id"] == ident), None)
        if found is None:
            raise port.WhatsAppRefusal("server returned error 404")
        return found


def quote_message(ident: str, text: str = "", sender: str = "") -> port.WhatsAppQuote:
    """A message of ours, or of `sender`, that somebody answers."""
    return port.WhatsAppQuote(ident, sender or OURS, text)


def _read(text: str) -> str:
    """What a phone shows: formatting without its marks, where they are such."""
    for mark in ("*", "_", "~", "`"):
        parts = text.split(mark)
        text = "".join(parts) if len(parts) % 2 and "**" not in text else text
    return text
