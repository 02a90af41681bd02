"""Messages that the agent sends by itself: into the outbox, cut as the channel takes them; and acts, at once.

Implements `MessagePort` of `tools.program`. At kill -9 a message that was posted is sent by the next start; an act is
lost, and one that would show twice is not repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import msgspec

from palinurus.agent.settle import to_outgoing_rows
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.channel import Channel, ChannelAbilities, ChannelAction, SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import StateBroken
from palinurus.outbox.parts import ChannelFit, split_reply
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import Store
from palinurus.tools.program.recipient import KnownChat, MessageDelivery

log = logging.getLogger(__name__)

LOOK = 0.05  # seconds between looks for a receipt
KIND = "acted"  # of the records of what must not be done twice, by call
OLD = 86_400_000  # milliseconds after which no run asks for a record
BEGUN = b"null"


class OutboxPost:
    """`wake` tells the deliverer of a channel that there are rows."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        channels: Mapping[str, Channel],
        clock: Clock,
        wake: Callable[[tuple[Reply, ...]], None],
    ) -> None:
        self._settings = settings
        self._store = store
        self._channels = channels
        self._clock = clock
        self._wake = wake

    def channels(self) -> Mapping[str, ChannelAbilities]:
        return {name: channel.abilities for name, channel in self._channels.items()}

    def accounts(self, channel: str) -> tuple[str, ...]:
        return tuple(self._settings.accounts.get(channel, ())) or ("default",)

    def barred(self, channel: str, account: str) -> frozenset[str]:
        actions = self._settings.account(channel, account).actions
        return frozenset(name for name, on in actions.items() if on is False)

    async def send(self, reply: Reply, wait: float) -> MessageDelivery:
        """What became of it after at most `wait` seconds. Raises DiskFull."""
        account = self._settings.account(reply.target.channel, reply.target.account)
        every = split_reply(reply, ChannelFit.of(self._channels[reply.target.channel].abilities, account))
        again = await self._store.reply(reply.client_id) is not None
        await self._store.post_replies(to_outgoing_rows(every, reply.client_id, self._clock.now()))
        self._wake(every)
        done = await self._end(every, self._clock.monotonic() + wait)
        return msgspec.structs.replace(done, again=again)

    async def say(self, target: Target, text: str, ident: str) -> None:
        """A text of the program's own, on its way when this returns; one `ident` is one message. Raises DiskFull."""
        await self.send(Reply(target, text, ident, "notice"), 0)

    async def _end(self, every: tuple[Reply, ...], until: float) -> MessageDelivery:
        """The receipt of the first part once all have one, or the first failure."""
        while True:
            rows = [await self._store.reply(part.client_id) for part in every]
            states = [row.state if row else "pending" for row in rows]
            failed = next((row for row in rows if row and row.state == "failed"), None)
            over = failed is not None or all(state == "sent" for state in states)
            if over or self._clock.monotonic() >= until:
                error = next((row.error for row in rows if row and row.error), "")
                state = "failed" if failed else "sent" if over else "pending"
                return MessageDelivery(state, rows[0].receipt if rows and rows[0] else "", error)
            await self._clock.sleep(LOOK)

    async def act(self, target: Target, act: ChannelAction) -> SendReceipt | SendFailure:
        try:
            return await self._channels[target.channel].act(target, act)
        except Exception as exc:  # border: a plugin's channel may break its promise
            log.exception("channel %s: %s failed", target.channel, type(act).__name__)
            return SendFailure(f"the channel broke: {exc}", "refused")

    async def act_once(self, ident: str, target: Target, act: ChannelAction) -> SendReceipt | SendFailure | None:
        """The record comes before the act, so that after a crash nobody does it a second time."""
        if not await self._store.put_record(KIND, ident, BEGUN, expect=None):
            kept = await self._store.get_record(KIND, ident)
            return msgspec.json.decode(kept.data, type=SendReceipt | None) if kept is not None else None
        await self._sweep()
        done = await self.act(target, act)
        await self._store.put_record(KIND, ident, msgspec.json.encode(done) if isinstance(done, SendReceipt) else None)
        return done

    async def _sweep(self) -> None:
        for kept in await self._store.list_records(KIND):
            if kept.at < self._clock.now() - OLD:
                await self._store.put_record(KIND, kept.key, None, expect=kept.data)

    async def chats(self) -> list[KnownChat]:
        found: list[KnownChat] = []
        for row in await self._store.sessions():
            try:
                record = SessionRecord.decode(row.data)
            except StateBroken:  # hides nobody else's chat
                continue
            channel = record.lastChannel or ""
            if record.lastTo and channel in self._channels:
                target = Target(channel, record.lastTo, record.lastAccountId or "default")
                found += [
                    KnownChat(name, target) for name in (record.subject, record.displayName, record.label) if name
                ]
                found.append(KnownChat("", target))
        return found
