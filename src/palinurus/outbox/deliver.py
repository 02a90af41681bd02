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
from palinurus.outbox.send import MessageSender, OutgoingMessage
from palinurus.patterns import decode_late
from palinurus.plugins.hooks import Hooks
from palinurus.store.port import OutboxRow, StaleClaim, Store

log = logging.getLogger(__name__)

LOOK = 30.0  # seconds between looks when nothing wakes us: rows whose time has come
OUT = 5.0  # seconds between two looks whether somebody has signed in again
AT_ONCE = 32  # chats of one channel that are written to at the same time
EVER = 2**62  # rows whose time has not come by the wall clock too: it may have been set
UNCERTAIN = "not known whether it arrived"
LOST = ".lost"  # ends the id of a notice
LOST_TEXT = "⚠️ A reply may not have reached you: twice I was stopped while sending it. It is in this chat's history."

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

    async def stop(self) -> None:
        """Workers end between two parts; what is left waits on disk."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _RowTimes:
    """How old rows are and when they may be tried again, by the clock that is never set. What the wall clock says of a
    row is believed once, when it is first seen."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, float]] = {}  # id -> stored, may be tried; monotonic
        self._tried: set[str] = set()

    def see(self, rows: list[OutboxRow]) -> None:
        """These are the rows there are now."""
        now, here = self._clock.now(), self._clock.monotonic()
        for row in rows:
            wait = min(max(0, row.due - now) / 1000, send.WAITS[-1])  # more is a clock that was set
            self._known.setdefault(row.id, (here - max(0, now - row.at) / 1000, here + wait))
        self._known = {row.id: self._known[row.id] for row in rows}
        self._tried &= set(self._known)

    def age(self, row: OutboxRow) -> int:
        """Milliseconds."""
        return int((self._clock.monotonic() - self._get(row)[0]) * 1000)

    def wait(self, row: OutboxRow) -> float:
        """Seconds before it may be tried."""
        return self._get(row)[1] - self._clock.monotonic()

    def delay(self, row: OutboxRow, seconds: float) -> None:
        """It was tried and may be again after `seconds`."""
        self._known[row.id] = (self._get(row)[0], self._clock.monotonic() + seconds)
        self._tried.add(row.id)

    def is_stale(self, row: OutboxRow) -> bool:
        """Is it too old to be news? Never before it was tried by this process: a start's clock may be wrong."""
        return row.id in self._tried and self.age(row) > send.DAY

    def _get(self, row: OutboxRow) -> tuple[float, float]:
        return self._known.get(row.id, (self._clock.monotonic(), 0.0))


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
        self._held: dict[str, float] = {}  # accounts that take nothing before this time
        self._out: set[str] = set()  # accounts that said they are signed out
        self._times = _RowTimes(clock)
        self._receipts: dict[str, str] = {}  # of rows that were shown, until the store knows it
        self._pause = LOOK
        self.speaks = False  # until it is granted to this node

    async def work(self) -> None:
        try:
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
        finally:
            for task in self._busy.values():
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)

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
        if reply.speak is not None and self._aids.voice is not None:  # before anything is sent: a crash finds it made
            voiced = await self._aids.voice(reply)
            if isinstance(voiced, str):
                await self._give_up(row, reply, joined, voiced)
                return None
            pass_crashpoint("speech.made")
            reply = voiced
        if row.state == "sending" and (receipt := await self._arrived(row, reply)) is not None:
            await self._settle(row, reply, joined, receipt)
            return None
        changed = await self._sending(reply)
        if changed is None:
            await self._give_up(row, reply, joined, "cancelled by a message_sending hook")
            return None
        drafts = self._aids.drafts
        draft = await drafts.take(row.item, row.id, reply.target) if drafts is not None else ""
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
        if not self._channel.dedupes and row.attempts > 1 and not drafted:
            return ""
        await self._store.mark_undelivered(row.id, f"{UNCERTAIN}: sent once more", self._clock.now())
        return None

    async def _failed(
        self, row: OutboxRow, reply: Reply, joined: JoinedBlocks | None, result: SendFailure
    ) -> float | None:
        if result.trouble == "cut":
            found = await self._channel.find(reply)
            if found is not None:
                await self._settle(row, reply, joined, found.message_id)
                return None
            if not self._channel.dedupes and row.attempts > 1:
                await self._give_up(row, reply, joined, f"{result.reason}; {UNCERTAIN}")
                return None
        follows = send.plan_retry(result, row.attempts, self._times.age(row), self._aids.retry(reply.target))
        if follows.wait is None:
            self._sent(reply, "", result.reason)
            await self._give_up(row, reply, joined, result.reason)
            return None
        if result.trouble == "signed_out":
            self._out.add(reply.target.account)
        if not follows.chat:
            self._held[reply.target.account] = self._clock.monotonic() + follows.wait
        self._times.delay(row, follows.wait)
        await self._store.mark_undelivered(row.id, result.reason, self._clock.now() + int(follows.wait * 1000))
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
        if not receipt and row.state == "sending" and row.attempts > 1 and row.id not in self._receipts:
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
        if not self._hooks.has("message_sending"):
            return reply
        change = await self._hooks.modify(
            "message_sending", {"to": reply.target.to, "channel": reply.target.channel, "content": reply.text}
        )
        if change.get("cancel"):
            return None
        return msgspec.structs.replace(reply, text=str(change.get("content", reply.text)))

    def _sent(self, reply: Reply, message_id: str, error: str | None) -> None:
        payload = {"to": reply.target.to, "content": reply.text, "success": error is None, "messageId": message_id}
        self._hooks.observe("message_sent", {**payload, "error": error})
