"""The client's port with neonize, a Go library (whatsmeow) behind Python. Only this file calls it, and nobody loads it
who has no WhatsApp account configured. Its session lies in the account's folder, in a file of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import segno
from neonize.aioze import events as ev
from neonize.aioze.client import NewAClient
from neonize.exc import NeonizeError
from neonize.proto.waCompanionReg.WAWebProtobufsCompanionReg_pb2 import DeviceProps
from neonize.utils.enum import ChatPresence, ChatPresenceMedia, MediaType, ReceiptType

from palinurus.channels.intake import RemoteFile
from palinurus.channels.kit import ChannelKit
from palinurus.channels.whatsapp import convert, port
from palinurus.channels.whatsapp.channel import QrPicture, WhatsAppChannel, link_device, unlink_device

log = logging.getLogger(__name__)

T = TypeVar("T")
_KINDS = {
    "image": MediaType.MediaImage, "audio": MediaType.MediaAudio, "video": MediaType.MediaVideo,
    "document": MediaType.MediaDocument,
}  # fmt: skip
# What the library tells of the connection -> what follows.
_AWAY: dict[Any, str] = {
    ev.DisconnectedEv: "the connection to WhatsApp broke",
    ev.KeepAliveTimeoutEv: "WhatsApp does not answer",
    ev.StreamErrorEv: "WhatsApp broke the connection off",
    ev.ConnectFailureEv: "WhatsApp does not let us in now",
}
_OUT: dict[Any, str] = {
    ev.LoggedOutEv: "the phone has unlinked us",
    ev.StreamReplacedEv: "another program uses this session",
    ev.ClientOutdatedEv: "WhatsApp does not take this version of neonize any more: a newer Palinurus is needed",
    ev.TemporaryBanEv: "WhatsApp has banned the account for a while",
}


def make_whatsapp_channel(kit: ChannelKit) -> WhatsAppChannel:
    """Connects to nobody before it runs."""
    logging.getLogger("neonize").setLevel(logging.ERROR)  # it warns of programs that we do not use
    return WhatsAppChannel(kit, NeonizeClient(kit))


async def log_in(kit: ChannelKit, show: Callable[[str], object]) -> str:
    """Link with a phone; "" or why not."""
    return await link_device(NeonizeClient(kit), draw_qr_code, show)


async def log_out(kit: ChannelKit) -> str:
    """Unlink; "" or why not."""
    return await unlink_device(NeonizeClient(kit))


def draw_qr_code(code: str) -> QrPicture:
    """A QR code for a terminal, and for a browser."""
    made, out = segno.make_qr(code), io.StringIO()
    made.terminal(out=out, compact=True, border=2)
    picture = QrPicture(out.getvalue())
    picture.url = str(made.png_data_uri(scale=6, border=3))
    return picture


class NeonizeClient:
    """Implements `port.WhatsAppClient`. A client that was stopped can be started again."""

    def __init__(self, kit: ChannelKit) -> None:
        self._folder = kit.folder
        self._account = kit.account
        self._client: Any = None
        self._going: asyncio.Task[Any] | None = None
        self._me = ""

    async def start(self, hear: Callable[[port.WhatsAppEvent], None]) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        path = os.path.join(self._folder, "session.db")
        with contextlib.suppress(FileExistsError):  # the library would make it readable for others
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        client = self._client = NewAClient(path, props=DeviceProps(os="Palinurus"), uuid=f"palinurus-{self._account}")
        for kind, words in _AWAY.items():
            client.event(kind)(_telling(hear, port.WhatsAppAway(words)))
        for kind, words in _OUT.items():
            client.event(kind)(_telling(hear, port.WhatsAppSignedOut(words)))
        client.event(ev.ConnectedEv)(lambda _client, _told: self._connected(hear))
        client.event(ev.KeepAliveRestoredEv)(lambda _client, _told: self._connected(hear))
        client.event(ev.MessageEv)(lambda _client, told: self._came(hear, told))

        async def code(_client: Any, data: bytes) -> None:
            hear(port.WhatsAppQrCode(data.decode()))

        client.event.qr(code)
        going: asyncio.Task[Any] = await _tried(client.connect())
        self._going = going
        going.add_done_callback(lambda task: _ended(task, hear))

    async def _connected(self, hear: Callable[[port.WhatsAppEvent], None]) -> None:
        device = await self._client.get_me()
        found = tuple(one for one in (convert.format_jid(device.JID), convert.format_jid(device.LID)) if one)
        self._me = found[0] if found else ""
        hear(port.WhatsAppReady(found, device.PushName))

    async def _came(self, hear: Callable[[port.WhatsAppEvent], None], told: Any) -> None:
        found = convert.convert_message(told)
        if found is None:
            return
        if found.sender.endswith("@lid") and not found.also:
            # One person, one name: the number is looked up where the message does not tell it.
            with contextlib.suppress(NeonizeError):
                number = convert.format_jid(await self._client.get_pn_from_lid(convert.make_jid(found.sender)))
                found = msgspec.structs.replace(found, sender=number, also=(found.sender,)) if number else found
        hear(found)

    async def stop(self) -> None:
        if self._client is not None:
            with contextlib.suppress(NeonizeError):
                await self._client.stop()
        if self._going is not None:
            self._going.cancel()
            await asyncio.gather(self._going, return_exceptions=True)
        self._client = self._going = None

    async def send(self, to: str, post: port.WhatsAppPost) -> str:
        client = self._open()
        if post.file is None:
            made = convert.build_text_message(post, self._me)
        else:
            sent = await _tried(client.upload(post.file.data, _KINDS[convert.find_media_kind(post.file)]), "upload: ")
            made = convert.build_file_message(post, post.file, sent, self._me)
        answer = await _tried(client.send_message(convert.make_jid(to), made), sending=True)
        return str(answer.ID)

    async def edit(self, to: str, ident: str, text: str) -> None:
        made = convert.build_text_message(port.WhatsAppPost(text), self._me)
        await _tried(self._open().edit_message(convert.make_jid(to), ident, made))

    async def delete(self, to: str, ident: str) -> None:
        await _tried(self._open().revoke_message(convert.make_jid(to), convert.make_jid(self._me), ident))

    async def react(self, to: str, sender: str, ident: str, emoji: str) -> None:
        client, chat = self._open(), convert.make_jid(to)
        made = await _tried(client.build_reaction(chat, convert.make_jid(sender or self._me), ident, emoji))
        await _tried(client.send_message(chat, made))

    async def typing(self, to: str) -> None:
        state, kind = ChatPresence.CHAT_PRESENCE_COMPOSING, ChatPresenceMedia.CHAT_PRESENCE_MEDIA_TEXT
        await _tried(self._open().send_chat_presence(convert.make_jid(to), state, kind))

    async def read(self, to: str, sender: str, ident: str) -> None:
        chat, who = convert.make_jid(to), convert.make_jid(sender)
        await _tried(self._open().mark_read(ident, chat=chat, sender=who, receipt=ReceiptType.READ))

    async def fetch(self, media: RemoteFile) -> bytes:
        return bytes(await _tried(self._open().download_any(media.source)))

    async def title(self, group: str) -> str:
        found = await _tried(self._open().get_group_info(convert.make_jid(group)))
        return str(found.GroupName.Name)

    async def logout(self) -> None:
        await _tried(self._open().logout())

    def _open(self) -> Any:
        if self._client is None:
            raise port.WhatsAppRefusal("not connected")
        return self._client


def _telling(
    hear: Callable[[port.WhatsAppEvent], None], event: port.WhatsAppEvent
) -> Callable[[Any, Any], Awaitable[None]]:
    async def tell(_client: Any, _told: Any) -> None:
        hear(event)

    return tell


async def _tried(work: Awaitable[T], head: str = "", *, sending: bool = False) -> T:
    """Raises WhatsAppRefusal for what the library raises."""
    try:
        return await work
    except (NeonizeError, OSError, ValueError) as exc:
        raise port.WhatsAppRefusal(f"{head}{exc}", sending=sending) from None


def _ended(task: asyncio.Task[Any], hear: Callable[[port.WhatsAppEvent], None]) -> None:
    """The library gave up."""
    if not task.cancelled() and (exc := task.exception()) is not None:
        log.warning("whatsapp: the client ended: %s", exc)
        hear(port.WhatsAppCrash(f"the client ended: {exc}"))
