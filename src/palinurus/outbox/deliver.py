"""Outbox rows -> platforms: in order per target, with receipts, again after failures, never twice if it can be helped.

Before a part is sent its row says `sending`, on disk. A row found in that state after a crash is uncertain: it
is looked up on the platform, or sent again where the platform drops repeats; otherwise it is sent once more at
most, and the trace says so. What follows from each trouble is the table in `send.py`; a chat that waits holds
no other back, and an account that waits holds its own chats only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from palinurus.agent.settle import to_outgoing_rows
from palinurus.clock import Clock
from palinurus.config.sections.channels import SendRetrySettings
from palinurus.core.types.channel import Channel, SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.crashpoints import pass_crashpoint
from palinurus.errors import StateError
from palinurus.outbox import send
from palinurus.outbox.drafts import LiveDrafts
from palinurus.outbox.pace import KIND, BlockPacer, JoinedBlocks
from palinurus.outbox.send import MessageSender, OutgoingMessage, RowTimes
from palinurus.patterns import decode_late
from palinurus.plugins.hooks import Hooks
from palinurus.store.port import OutboxRow, StaleClaim, Store

log = logging.getLogger(__name__)

LOOK = 30.0  # seconds between looks when nothing wakes us: rows whose time has come
OUT = 5.0  # seconds between two looks whether somebody has signed in again
AT_ONCE = 32  # chats of one channel that are written to at the same time
EVER = 2**62  # rows whose time has not come by the wall clock too: it may have been set
UNCERTAIN = "not known whether it arrived"
CANCELLED = "cancelled by a message_sending hook"
LOST = ".lost"  # ends the id of a notice
LOST_TEXT = "⚠️ A reply may not have reached you: twice sending it was cut off. It is in this chat's history."
LEAVING = 5.0  # seconds that a part which is being sent gets when we stop: cut off, it may be seen twice

_decoder = decode_late(Reply)


class DeliveryAids(msgspec.Struct, frozen=True):
    """Who helps with delivery. `shown` hears of every message that was shown: (reply, the platform's id). `voice` makes
    a message of one that is to be spoken, or says why there is none."""

    drafts: LiveDrafts | None = None
    pace: BlockPacer | None = None
    shown: Callable[[Reply, str], None] | None = None
    retry: Callable[[Target], SendRetrySettings | None] = lambda target: None  # what the account says of further tries
    voice: Callable[[Reply], Awaitable[Reply | str]] | None = None


ALONE = DeliveryAids()


def name_channel_grant(channel: str) -> str:
    """What the one node holds that receives from a channel and sends to it."""
    return f"channel/{channel}"


class Deliverer:
    """One worker a channel; `wake` when rows were added."""

    def __init__(
        self, store: Store, channels: Mapping[str, Channel], hooks: Hooks, clock: Clock, aids: DeliveryAids = ALONE
    ) -> None:
        self._store = store
        self._channels = channels
        self._hooks = hooks
        self._clock = clock
        self._aids = aids
        self._workers: dict[str, _Worker] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._workers = {
            name: _Worker(channel, self._store, self._hooks, self._clock, aids=self._aids)
            for name, channel in self._channels.items()
        }
        self._tasks = [asyncio.ensure_future(worker.work()) for worker in self._workers.values()]

    def speaks_for(self, channel: str) -> bool:
        """Is it this node that sends its replies?"""
        return channel in self._workers and self._workers[channel].speaks

    def wake(self, channel: str) -> None:
        if channel in self._workers:
            self._workers[channel].wake.set()

    def wake_all(self) -> None:
        for worker in self._workers.values():
            worker.wake.set()

    def on_queued(self, replies: tuple[Reply, ...]) -> None:
        """These are in the outbox now."""
        if self._aids.pace is not None:
            self._aids.pace.on_queued(replies)
        for name in {reply.target.channel for reply in replies}:
            self.wake(name)

    async def stop(self, seconds: float = LEAVING) -> None:
        """No part is begun any more, and those that are being sent get so long; what is left waits on disk."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(worker.leave(seconds) for worker in self._workers.values()))


class _Worker:
    """The rows of one channel. Each chat is written to by one task at a time."""

    def __init__(self, channel: Channel, store: Store, hooks: Hooks, clock: Clock, aids: DeliveryAids) -> None:
        self._channel = channel
        self._store = store
        self._hooks = hooks
        self._clock = clock
        self._aids = aids
        self._sender = MessageSender(channel)
        self.wake = asyncio.Event()
        self._busy: dict[str, asyncio.Task[None]] = {}  # by target
        self._sends: set[asyncio.Task[None] | None] = set()  # of these, who may be at the platform
        self._held: dict[str, float] = {}  # accounts that take nothing before this time
        self._out: set[str] = set()  # accounts that said they are signed out
        self._times = RowTimes(clock)
        self._receipts: dict[str, str] = {}  # of rows that were shown, until the store knows it
        self._pause = LOOK
        self.speaks = False  # until it is granted to this node

    async def work(self) -> None:
        while True:
            self.wake.clear()
            self._pause = LOOK
            try:
                await self._look()
            except StateError as exc:
                log.error("channel %s: %s", self._channel.name, exc.message)
            except Exception:  # task boundary: logged; the rest goes on
                log.exception("channel %s: delivery failed", self._channel.name)
            timer = asyncio.get_running_loop().call_later(self._pause, self.wake.set)
            await self.wake.wait()
            timer.cancel()

    async def leave(self, seconds: float) -> None:
        """Nobody works any more: see `Deliverer.stop`."""
        left = tuple(self._busy.values())
        for task in (task for task in left if task not in self._sends):
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=seconds)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _look(self) -> None:
        """Begin with every chat whose first row may go, if this node speaks for the channel."""
        speaks = await self._store.grant(name_channel_grant(self._channel.name))
        if speaks and not self.speaks and self._store.node and self._aids.drafts is not None:
            await self._aids.drafts.load(self._channel.name)  # of whoever spoke before us
        self.speaks = speaks
        if not speaks:
            return
        rows = await self._store.list_due_replies(self._channel.name, EVER)
        self._times.see(rows)
        for row in rows:
            if row.target in self._busy or len(self._busy) >= AT_ONCE:
                continue
            try:
                reply = _decoder.decode(row.data)
            except msgspec.MsgspecError as exc:
                await self._store.mark_undelivered(row.id, f"the stored reply cannot be read: {exc}", None)
                self.wake.set()
                continue
            if (wait := self._wait(row, reply)) > 0:
                self._pause = min(self._pause, wait)
                continue
            self._busy[row.target] = asyncio.ensure_future(self._one(row, reply))

    def _wait(self, row: OutboxRow, reply: Reply) -> float:
        """Seconds before this row may be tried."""
        account = reply.target.account
        if account in self._out:
            if self._channel.status().state == "signed_out":
                return OUT
            self._out.discard(account)
        held = self._held.get(account, 0.0) - self._clock.monotonic()
        pace = self._aids.pace
        waits = pace.wait(reply, self._times.age(row)) if pace is not None and row.attempts == 0 else 0.0
        return max(held, waits, self._times.wait(row))

    async def _one(self, row: OutboxRow, reply: Reply) -> None:
        wait: float | None = LOOK
        try:
            wait = await self._part(row, reply)
        except StaleClaim:
            wait = None  # cancelled meanwhile: its run was stopped
            if self._aids.drafts is not None:
                self._aids.drafts.on_ended(row.item)
        except StateError as exc:
            log.error("channel %s: %s", self._channel.name, exc.message)
        except Exception:  # task boundary: logged; the other chats go on
            log.exception("channel %s: reply %s failed", self._channel.name, row.id)
        finally:
            self._sends.discard(asyncio.current_task())
            del self._busy[row.target]
        if wait is None:
            self.wake.set()
        else:
            asyncio.get_running_loop().call_later(wait, self.wake.set)

    async def _part(self, row: OutboxRow, reply: Reply) -> float | None:
        """Deliver one row. Returns None when it is settled, else the seconds until it may be tried again."""
        joined = await self._joined(row, reply)
        if self._times.is_stale(row):
            await self._give_up(row, reply, joined, row.error or "not sent within a day")
            return None
        if joined is not None:
            reply = msgspec.structs.replace(reply, text=joined.text)
        if (known := self._receipts.get(row.id)) is not None:  # all that is missing is the store's word for it
            await self._settle(row, reply, joined, known)
            return None
        changed: Reply | None = None
        if reply.speak is not None and self._aids.voice is not None:  # before anything is sent: a crash finds it made
            if (heard := await self._sending(reply)) is None:
                await self._give_up(row, reply, joined, CANCELLED)
                return None
            voiced = await self._aids.voice(heard)
            if isinstance(voiced, str):
                await self._give_up(row, reply, joined, voiced)
                return None
            pass_crashpoint("speech.made")
            reply, changed = voiced, None if heard.text else voiced  # words that are written are judged, too
        if row.state == "sending" and (receipt := await self._arrived(row, reply)) is not None:
            await self._settle(row, reply, joined, receipt)
            return None
        if (changed := changed or await self._sending(reply)) is None:
            await self._give_up(row, reply, joined, CANCELLED)
            return None
        drafts = self._aids.drafts
        draft = await drafts.take(row.item, row.id, reply.target) if drafts is not None else ""
        self._sends.add(asyncio.current_task())
        row = await self._store.mark_sending(row.id, self._clock.now(), attempts=row.attempts)
        await self._store.confirm()  # else another node sends it by now
        result = await self._sender.send(OutgoingMessage(changed, draft, row.attempts > 1))
        if isinstance(result, SendReceipt):
            pass_crashpoint("outbox.sent")
            self._receipts[row.id] = result.message_id
            await self._settle(row, reply, joined, result.message_id)
            if drafts is not None and draft:
                await drafts.done(row.item)
            self._sent(changed, result.message_id, None)
            return None
        return await self._failed(row, changed, joined, result)

    async def _arrived(self, row: OutboxRow, reply: Reply) -> str | None:
        """A row of which nobody knows: its receipt if it was shown ("" for one that is not to be tried again), None
        to send it (again)."""
        found = await self._channel.find(reply)
        if found is not None:
            return found.message_id
        drafted = self._aids.drafts is not None and self._aids.drafts.holds(row.item, row.id)
        if not self._channel.dedupes and UNCERTAIN in row.error and not drafted:
            return ""
        await self._store.mark_undelivered(row.id, f"{UNCERTAIN}: sent once more", self._clock.now())
        return None

    async def _failed(
        self, row: OutboxRow, reply: Reply, joined: JoinedBlocks | None, result: SendFailure
    ) -> float | None:
        unsure, why = UNCERTAIN in row.error, result.reason
        if result.trouble == "cut":
            found = await self._channel.find(reply)
            if found is not None:
                await self._settle(row, reply, joined, found.message_id)
                return None
            if not self._channel.dedupes and unsure:
                await self._tell_lost(row, reply)
                await self._give_up(row, reply, joined, f"{why}; {UNCERTAIN}")
                return None
        if unsure or result.trouble == "cut":  # whatever comes next, it is on disk that it may have been seen
            why = f"{why}; {UNCERTAIN}"
        follows = send.plan_retry(result, self._times.tries(row), self._times.age(row), self._aids.retry(reply.target))
        if follows.wait is None:
            self._sent(reply, "", result.reason)
            await self._give_up(row, reply, joined, why)
            return None
        if result.trouble == "signed_out":
            self._out.add(reply.target.account)
        if not follows.chat:
            self._held[reply.target.account] = self._clock.monotonic() + follows.wait
        self._times.delay(row, follows.wait, held=send.TABLE[result.trouble] == "hold")
        await self._store.mark_undelivered(row.id, why, self._clock.now() + int(follows.wait * 1000))
        return follows.wait

    # --- rows that go as one message

    async def _joined(self, row: OutboxRow, reply: Reply) -> JoinedBlocks | None:
        """The message this row is the first of. On record before it is sent, so that it is known as one afterwards."""
        if row.attempts:
            kept = await self._store.get_record(KIND, row.id) if reply.kind == "block" else None
            return msgspec.json.decode(kept.data, type=JoinedBlocks) if kept is not None else None
        joined = self._aids.pace.find_joined(reply) if self._aids.pace is not None else None
        if joined is not None:
            await self._store.put_record(KIND, row.id, msgspec.json.encode(joined))
        return joined

    async def _settle(self, row: OutboxRow, reply: Reply, joined: JoinedBlocks | None, receipt: str) -> None:
        """It was shown, with all that went along; the first row last, since it has the record."""
        if not receipt and row.state == "sending" and UNCERTAIN in row.error and row.id not in self._receipts:
            await self._tell_lost(row, reply)
            await self._give_up(row, reply, joined, f"{UNCERTAIN}; not sent a third time")
            return
        now = self._clock.now()
        for ident in joined.ids[1:] if joined is not None else ():
            try:
                await self._store.mark_delivered(ident, receipt, now)
            except StaleClaim:
                log.debug("reply %s was settled before", ident)
        await self._store.mark_delivered(row.id, receipt, now)
        await self._over(row, reply, joined)
        if self._aids.shown is not None:
            self._aids.shown(reply, receipt)

    async def _give_up(self, row: OutboxRow, reply: Reply, joined: JoinedBlocks | None, why: str) -> None:
        log.warning("reply %s to %s: %s", row.id, row.channel, why)
        for ident in (*(joined.ids[1:] if joined is not None else ()), row.id):
            try:
                await self._store.mark_undelivered(ident, why, None)
            except StaleClaim:
                log.debug("reply %s was settled before", ident)
        await self._over(row, reply, joined)

    async def _tell_lost(self, row: OutboxRow, reply: Reply) -> None:
        """Nobody knows whether two tries were seen, and a third may be one too many: the person is told, in a message
        of its own (once: its id is that of the row). Of a notice there is none."""
        if row.id.endswith(LOST):
            return
        said = Reply(reply.target, LOST_TEXT, row.id + LOST, "notice")
        await self._store.post_replies(to_outgoing_rows((said,), row.item, self._clock.now()))

    async def _over(self, row: OutboxRow, reply: Reply, joined: JoinedBlocks | None) -> None:
        self._sender.over(row.id)
        self._receipts.pop(row.id, None)
        if joined is not None:
            await self._store.put_record(KIND, row.id, None)
        if self._aids.pace is not None:
            self._aids.pace.on_gone(reply)

    # --- hooks

    async def _sending(self, reply: Reply) -> Reply | None:
        """The reply as hooks leave it, also of the words that are to be said aloud; None if they hold it back."""
        if not self._hooks.has("message_sending"):
            return reply
        target, speak = reply.target, reply.speak
        said = reply.text if speak is None else speak.text
        change = await self._hooks.modify(
            "message_sending", {"to": target.to, "channel": target.channel, "content": said}
        )
        if change.get("cancel"):
            return None
        said = str(change.get("content", said))
        if speak is None:
            return msgspec.structs.replace(reply, text=said)
        return msgspec.structs.replace(reply, speak=msgspec.structs.replace(speak, text=said))

    def _sent(self, reply: Reply, message_id: str, error: str | None) -> None:
        payload = {"to": reply.target.to, "content": reply.text, "success": error is None, "messageId": message_id}
        self._hooks.observe("message_sent", {**payload, "error": error})
