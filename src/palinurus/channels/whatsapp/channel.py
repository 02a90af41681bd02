"""One linked device on WhatsApp: signing in and out (a phone reads a QR code; who shows it to whom is the caller's
affair), and what we do with what the client hears, which reconnects by itself.

WhatsApp tells a message once and is told at once that it came: what was heard is asked in until the program takes it.
The library takes no ids of ours: a reply whose receipt is lost can be seen twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from functools import partial

import msgspec

from palinurus.channels.intake import ChatWorkers, FileUnavailable, RemoteFile, fetch_message_files, hand_in
from palinurus.channels.kit import AccountChannel, ChannelKit, RecentDict
from palinurus.channels.whatsapp import port
from palinurus.channels.whatsapp.messages import ABILITIES, WhatsAppPoster, make_event_name, parse_message
from palinurus.core.types.channel import ChannelAction, SendReceipt, SendResult, SubmitInbound
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply

log = logging.getLogger(__name__)

SECONDS = 180.0  # for a person to find the phone
SIGN_IN = "nobody is signed in: run `pal channels login whatsapp` and read the code with the phone"
QUOTES = 2000  # messages whose text is remembered, to be quoted
TITLES = 500


class QrPicture(str):
    """A QR code as text for a terminal. `url` shows the same in a browser."""

    url: str = ""


async def link_device(
    client: port.WhatsAppClient, draw: Callable[[str], QrPicture], show: Callable[[str], object]
) -> str:
    """Returns "" once a phone has linked us (or had before), else why not. Every new code is shown."""
    done: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def hear(told: port.WhatsAppEvent) -> None:
        if isinstance(told, port.WhatsAppQrCode):
            show("Open WhatsApp on the phone, Settings, Linked devices, Link a device, and read this:")
            show(draw(told.text))
        elif isinstance(told, port.WhatsAppReady) and not done.done():
            done.set_result("")
        elif isinstance(told, port.WhatsAppSignedOut | port.WhatsAppCrash) and not done.done():
            done.set_result(told.reason or "WhatsApp signed us out")

    try:
        await client.start(hear)
        async with asyncio.timeout(SECONDS):
            return await done
    except port.WhatsAppRefusal as exc:
        return str(exc)
    except TimeoutError:
        return "nobody read the code in time"
    finally:
        await client.stop()


async def unlink_device(client: port.WhatsAppClient) -> str:
    """Returns "" once the phone has forgotten us, else why not."""
    done: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def hear(told: port.WhatsAppEvent) -> None:
        if not done.done() and isinstance(told, port.WhatsAppReady | port.WhatsAppSignedOut | port.WhatsAppQrCode):
            done.set_result("" if isinstance(told, port.WhatsAppReady) else "nobody is signed in")

    try:
        await client.start(hear)
        async with asyncio.timeout(SECONDS / 6):
            why = await done
        if not why:
            await client.logout()
        return why
    except port.WhatsAppRefusal as exc:
        return str(exc)
    except TimeoutError:
        return "WhatsApp cannot be reached; take the device off the phone's list of linked devices"
    finally:
        await client.stop()


class WhatsAppChannel(AccountChannel):
    """Implements `Channel`."""

    name = "whatsapp"
    abilities = ABILITIES

    def __init__(self, kit: ChannelKit, client: port.WhatsAppClient) -> None:
        super().__init__(kit)
        self._client = client
        self._out = WhatsAppPoster(client, kit, lambda name: self._texts.get(name, ""))
        self._me: frozenset[str] = frozenset()
        self._texts: RecentDict[str, str] = RecentDict(QUOTES)
        self._titles: RecentDict[str, str] = RecentDict(TITLES)
        self._workers: ChatWorkers[port.WhatsAppMessage] | None = None

    async def run(self, submit: SubmitInbound) -> None:
        """Receive until cancelled; ends when we are signed out."""
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        workers = self._workers = self._workers or ChatWorkers(partial(self._take, submit), self._full)
        broke = False
        self.set_status("starting")
        try:
            await self._client.start(partial(self._hear, workers, ended))
            why = await ended
            self.set_status("signed_out", why)
            log.error("whatsapp %s: %s", self._kit.account, why)
        except port.WhatsAppRefusal as exc:
            broke = True  # begun again in a moment; what is in hand was told only once and goes on
            self.set_status("reconnecting", str(exc)[:200])
            raise
        finally:
            if not broke:
                self._workers = None
                await workers.close()
            await self._client.stop()

    def _hear(
        self, workers: ChatWorkers[port.WhatsAppMessage], ended: asyncio.Future[str], told: port.WhatsAppEvent
    ) -> None:
        match told:
            case port.WhatsAppReady(me, name):
                self._me = frozenset(me)
                self.set_status("ready", me=name or next(iter(me), ""))
            case port.WhatsAppAway(reason):
                self.set_status("reconnecting", reason)
            case port.WhatsAppSignedOut(reason) if not ended.done():
                ended.set_result(f"{reason}; {SIGN_IN}" if reason else SIGN_IN)
            case port.WhatsAppQrCode() if not ended.done():
                ended.set_result(SIGN_IN)
            case port.WhatsAppCrash(reason) if not ended.done():
                ended.set_exception(port.WhatsAppRefusal(reason))
            case port.WhatsAppMessage():
                workers.give(told.chat, told)
            case _:
                pass

    def _full(self, came: port.WhatsAppMessage) -> None:
        self.tell_overrun(Target(self.name, came.chat, self._kit.account), came.id)

    async def _take(self, submit: SubmitInbound, came: port.WhatsAppMessage) -> None:
        inbound = parse_message(came, self._me, self._kit.account)
        if inbound is None:
            return
        self._texts[inbound.event] = came.text[:1000]
        if inbound.kind == "group":
            inbound = msgspec.structs.replace(inbound, title=await self._title(came.chat))
        inbound = await fetch_message_files(self._kit, inbound, (came.media,) if came.media else (), self._fetch)
        if await hand_in(submit, inbound, self._kit.clock) and self._kit.flag("sendReadReceipts", True):
            try:
                await self._client.read(came.chat, came.sender, came.id)
            except port.WhatsAppRefusal as exc:  # the sender does not see that it was read, no more
                log.info("whatsapp %s: no receipt: %s", self._kit.account, exc)

    async def _fetch(self, file: RemoteFile) -> AsyncGenerator[bytes, None]:
        try:
            yield await self._client.fetch(file)
        except port.WhatsAppRefusal as exc:
            raise FileUnavailable(f"could not be fetched: {str(exc)[:200]}") from exc

    async def _title(self, group: str) -> str:
        if group not in self._titles:
            try:
                self._titles[group] = await self._client.title(group)
            except port.WhatsAppRefusal:
                return ""
        return self._titles[group]

    async def send(self, reply: Reply) -> SendResult:
        sent = await self._out.send(reply)
        if isinstance(sent, SendReceipt):
            self._texts[make_event_name("", sent.message_id)] = reply.text[:1000]
        return sent

    async def act(self, target: Target, act: ChannelAction) -> SendResult:
        return await self._out.act(target, act)
