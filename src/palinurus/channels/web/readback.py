"""Platforms that call once, know no ids of ours, and can be asked for their messages (Twilio, BlueBubbles). What a
request failed to bring is found on the list; what we are about to send is on disk with its time, and after a lost
answer the list is asked for that text since then, before anything is sent again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from palinurus.channels.intake import InboundWithFiles
from palinurus.channels.kit import PASSING, ChannelKit, MemoTable
from palinurus.channels.web.api import HttpApi
from palinurus.channels.web.hook import HookedChannel
from palinurus.core.format.render import render_markdown
from palinurus.core.types.channel import SendFailure, SendReceipt, SendResult, SubmitInbound
from palinurus.core.types.outbound import Reply
from palinurus.errors import PalinurusError

log = logging.getLogger(__name__)

SOON = 5.0  # seconds until what could not be taken is looked for
BACK = 3_600_000  # milliseconds before the newest message that are read again
SLACK = 120_000  # milliseconds that the platform's clock may be behind ours
SINCE = "since"  # the row of `taken` with the first start of all


class SentMessage(msgspec.Struct, frozen=True):
    """One of ours on the platform's list."""

    ident: str
    text: str
    at: int


class ReadBackChannel(HookedChannel):
    """A channel says `list_heard`, `list_sent` and `post`, and `pause`: seconds between two looks at the list."""

    pause = 300.0

    def __init__(self, kit: ChannelKit, api: HttpApi) -> None:
        super().__init__(kit, api)
        self._taken = MemoTable(kit.memo, "taken", 300)  # by message: when it came
        self._sending = MemoTable(kit.memo, "sending", 200)  # by client id: since when, and the message it became
        self._missed = asyncio.Event()

    async def list_heard(self, since: int) -> Sequence[InboundWithFiles] | SendFailure:
        """What people said from `since` (milliseconds) on, oldest first."""
        raise NotImplementedError

    async def list_sent(self, chat: str, since: int) -> Sequence[SentMessage] | SendFailure:
        """What we said in a chat from `since` (milliseconds) on."""
        raise NotImplementedError

    async def post(self, reply: Reply) -> SendResult:
        """Send it, whatever was sent before."""
        raise NotImplementedError

    # --- in

    async def take(self, heard: InboundWithFiles, submit: SubmitInbound) -> None:
        """The platform calls once: what is not taken now is looked for soon."""
        try:
            await super().take(heard, submit)
        except PalinurusError:
            self._missed.set()
            raise
        await self._taken.put(heard.inbound.event, heard.inbound.at)

    async def listen(self) -> SendFailure:
        """Read the list now and then, and soon after something could not be taken."""
        if SINCE not in await self._taken.rows():  # what was said before there was an agent is not answered
            await self._taken.put(SINCE, self._kit.clock.now())
        while True:
            self._missed.clear()
            trouble = await self._catch_up()
            if trouble is not None:
                return trouble
            if self._missed.is_set():
                await self._kit.clock.sleep(SOON)
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(self._missed.wait(), self.pause)

    async def _catch_up(self) -> SendFailure | None:
        rows = await self._taken.rows()
        newest = max((at for at in rows.values() if isinstance(at, int)), default=0)
        found = await self.list_heard(max(newest - BACK, int(rows.get(SINCE) or newest) - SLACK))
        if isinstance(found, SendFailure):
            return found
        assert self.submit is not None
        for one in found:
            if one.inbound.event in rows:
                continue
            try:
                await self.take(one, self.submit)
            except PalinurusError as exc:
                log.warning("%s, account %s: a message waits: %s", self.name, self._kit.account, exc.message)
                return None
        return None

    # --- out

    async def send(self, reply: Reply) -> SendResult:
        before = (await self._sending.rows()).get(reply.client_id)
        if before:
            found = await self._sought(reply)
            if isinstance(found, SendReceipt) or (isinstance(found, SendFailure) and found.trouble in PASSING):
                return found
        else:
            await self._sending.put(reply.client_id, [self._kit.clock.now(), ""])
        told = await self.post(reply)
        if isinstance(told, SendReceipt):
            await self._sending.put(reply.client_id, [self._kit.clock.now(), told.message_id])
        return told

    async def find(self, reply: Reply) -> SendReceipt | None:
        """Is its text on the list since we set out to send it? While the list cannot be had, `send` asks again."""
        found = await self._sought(reply)
        return found if isinstance(found, SendReceipt) else None

    async def _sought(self, reply: Reply) -> SendResult | None:
        rows = await self._sending.rows()
        since, ident = rows.get(reply.client_id) or (0, "")
        if not since or ident:
            return SendReceipt(ident) if ident else None
        found = await self.list_sent(reply.target.to, since - SLACK)
        if isinstance(found, SendFailure):
            return found
        others, text = {one[1] for one in rows.values()}, write_plain(reply)
        for one in found:
            if one.ident not in others and one.at >= since - SLACK and one.text.strip() == text:
                return SendReceipt(one.ident)
        return None


def write_plain(reply: Reply) -> str:
    """Its text without any marks."""
    return (reply.text if reply.plain else render_markdown(reply.text, "plain").text).strip()
