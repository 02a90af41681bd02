"""The channel: one account of a signal-cli daemon. Receives, fetches files, workers in, sends read receipts.

The daemon tells every message once and has then told Signal that it was read: what we hold is handed in again and again
until it is taken, and lost if the program is killed meanwhile. Signal has no client ids and no read-back.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial

from palinurus.channels import intake
from palinurus.channels.kit import AccountChannel, ChannelKit, RecentDict, load_reply_files
from palinurus.channels.signal import outbound
from palinurus.channels.signal.inbound import SignalIdentity, parse_event
from palinurus.channels.signal.link import SignalRpcError, SignalUnknownAccount, SignalUnreachable, make_link
from palinurus.core.types import channel
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply

log = logging.getLogger(__name__)

USUAL = "http://127.0.0.1:8080"
LIMIT = 4000
MEDIA = 25 * 1024 * 1024
QUOTABLE = 500  # texts remembered for quotes
RECHECK = 60.0  # seconds until a daemon without our account is asked again


def _address(kit: ChannelKit) -> str:
    if url := kit.text("httpUrl"):
        return url
    port = kit.own.get("httpPort")
    return f"http://{kit.text('httpHost', '127.0.0.1')}:{port}" if port else USUAL


class SignalChannel(AccountChannel):
    """Implements `Channel`. Raises ConfigError for an address that is none."""

    name = "signal"
    abilities = channel.ChannelAbilities(
        "signal",
        LIMIT,
        acts=frozenset(("typing", "delete", "react")),  # not edit: Signal lets a message be changed ten times only
        typing=10.0,
        replies=True,
        media=MEDIA,
        voice=True,
    )

    def __init__(self, kit: ChannelKit) -> None:
        super().__init__(kit)
        self._link = make_link(_address(kit))
        self._me = SignalIdentity(kit.text("account"), kit.text("accountUuid"))
        self._said: RecentDict[str, str] = RecentDict(QUOTABLE)
        self._receipts = kit.flag("sendReadReceipts", False)

    async def run(self, submit: channel.SubmitInbound) -> None:
        workers: intake.ChatWorkers[intake.InboundWithFiles] = intake.ChatWorkers(
            lambda found: self._take(found, submit),
            lambda found: self.tell_overrun(found.inbound.target, found.inbound.event),
        )
        try:
            await self.keep_connected(partial(self._receive, workers), RECHECK)
        finally:
            await workers.close()
            await self._link.close()

    async def _receive(self, workers: intake.ChatWorkers[intake.InboundWithFiles]) -> channel.SendFailure:
        """One connection, up to its end."""
        asked: asyncio.Task[None] | None = None
        try:
            async with aclosing(self._link.events(self._me.number)) as events:
                async for event in events:
                    if not event:
                        self._backoff.reset()
                        asked = asyncio.ensure_future(self._introduce())
                    elif (found := parse_event(event, self._me, self._kit.account)) is not None:
                        workers.give(found.inbound.target.to, found)
        except SignalUnknownAccount:
            self._signed_out()
            return channel.SendFailure(self._status.detail, "signed_out")
        except SignalUnreachable as exc:
            if self._status.state != "signed_out":
                return channel.SendFailure(str(exc))
            return channel.SendFailure(self._status.detail, "signed_out", self._backoff.next_delay())
        finally:
            if asked is not None:
                asked.cancel()
        return channel.SendFailure("signal-cli closed the stream")

    async def _introduce(self) -> None:
        """While connected: does the daemon have our account? Asked again from time to time while we are signed out."""
        while True:
            if self._status.state != "ready":
                await self._look()
            await self._kit.clock.sleep(RECHECK)

    async def _look(self) -> None:
        try:
            known = await self._link.call("listAccounts", {})
            numbers = [one.get("number") for one in known if isinstance(one, dict)] if isinstance(known, list) else []
            if isinstance(known, list) and self._me.number and self._me.number not in numbers:
                self._signed_out()
                return
        except SignalRpcError:
            pass  # a daemon that was started for one account does not know this method
        except SignalUnreachable:
            return  # the stream ends too, and with it this try
        if await self._own_uuid():
            self.set_status("ready", me=self._me.number)

    async def _own_uuid(self) -> bool:
        """Mentions of us are known by it. Asked for once, then remembered. False if we turn out to be signed out."""
        number = self._me.number
        if self._me.uuid or not number:
            return True
        if kept := await self._kit.memo.get(f"uuid/{number}"):
            self._me = SignalIdentity(number, kept.decode())
            return True
        told = await self._called("getUserStatus", {"recipient": [number]})
        rows = told.data if isinstance(told, channel.SendReceipt) else None
        uuid = rows[0].get("uuid") if isinstance(rows, list) and rows and isinstance(rows[0], dict) else None
        if not isinstance(uuid, str):
            log.info("signal: our own uuid is not known (set accountUuid): %s", told)
            return not (isinstance(told, channel.SendFailure) and told.trouble == "signed_out")
        self._me = SignalIdentity(number, uuid)
        await self._kit.memo.put(f"uuid/{number}", uuid.encode())
        return True

    def _signed_out(self) -> None:
        number = self._me.number or "NUMBER"
        self.set_status(
            "signed_out",
            f"signal-cli has no account {number}: run `signal-cli -a {number} register`, or link it to a phone with "
            "`signal-cli link -n palinurus`, then restart the daemon",
        )

    def _for(self) -> dict[str, str]:
        return {"account": self._me.number} if self._me.number else {}

    # --- in

    async def _take(self, found: intake.InboundWithFiles, submit: channel.SubmitInbound) -> None:
        inbound = found.inbound
        if inbound.event in self._said:
            return  # told again; the first one is on disk
        whole = await intake.fetch_message_files(self._kit, inbound, found.files, partial(self._fetch, inbound.target))
        taken = await intake.hand_in(submit, whole, self._kit.clock)
        self._said[inbound.event] = whole.text[:1000]
        if taken and self._receipts:
            at = {"recipient": inbound.sender.id, "targetTimestamp": [inbound.at], "type": "read"}
            await self._called("sendReceipt", at)

    async def _fetch(self, target: Target, file: intake.RemoteFile) -> AsyncGenerator[bytes, None]:
        where = outbound.address_chat(target)
        where = {"recipient": where["recipient"][0]} if "recipient" in where else where
        try:
            result = await self._link.call("getAttachment", {**self._for(), "id": file.source, **where})
            yield base64.b64decode(result["data"], validate=True)
        except (SignalRpcError, SignalUnreachable, TypeError, KeyError, binascii.Error) as exc:
            raise intake.FileUnavailable(f"could not be fetched from signal-cli: {type(exc).__name__}") from exc

    # --- out

    async def send(self, reply: Reply) -> channel.SendResult:
        files = await load_reply_files(self._kit, reply, MEDIA)
        if isinstance(files, channel.SendFailure):
            return files
        params = outbound.build_message(reply, files, self._me.number, self._said)
        done = await self._called("send", params)
        return done if isinstance(done, channel.SendFailure) else outbound.read_send_result(done.data)

    async def act(self, target: Target, act: channel.ChannelAction) -> channel.SendResult:
        if isinstance(act, channel.TypingAction):
            return await self._called("sendTyping", outbound.address_chat(target))
        if isinstance(act, channel.ReactAction):
            params, method = outbound.build_reaction(target, act, self._me.number), "sendReaction"
        elif isinstance(act, channel.DeleteAction):
            params, method = outbound.build_deletion(target, act), "remoteDelete"
        else:
            return await super().act(target, act)
        return (
            await self._called(method, params) if params else channel.SendFailure("there is no such message", "refused")
        )

    async def _called(self, method: str, params: Mapping[str, object]) -> channel.SendResult:
        try:
            result = await self._link.call(method, {**self._for(), **params})
        except (SignalRpcError, SignalUnreachable) as exc:
            failed = outbound.explain_signal_error(exc)
            if failed.trouble == "signed_out":
                self._signed_out()
            return failed
        return channel.SendReceipt("", result)
