"""Answers that grow before people's eyes: a draft message, edited while the run goes on. Best effort: a draft that
cannot be shown holds nothing up.

The first row of the outbox that answers the same message takes the draft's place (`deliver.py` edits it), so there is
one visible copy. A draft is on record before it is sent: after a crash the resumed run goes on with it, or the next
start removes it. Where a platform can neither read back nor drop repeats, a draft whose sending was cut off stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping

import msgspec

from palinurus.clock import Clock
from palinurus.core.types.channel import Channel, DeleteAction, EditAction, SendFailure, SendReceipt
from palinurus.core.types.inbound import Inbound, Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import PalinurusError
from palinurus.store.port import Store

log = logging.getLogger(__name__)

KIND = "draft"  # of the records, by client id
TRIES = 3  # failures in a row after which a draft is left as it is
REMOVALS = (5.0, 60.0, 600.0, 3600.0)  # seconds between tries of removing one
PATIENCE = 10.0  # seconds that a call of the platform may take


class DraftRecord(msgspec.Struct, frozen=True):
    """What is on record. Without `message_id` it was about to be sent."""

    item: str  # the message that is answered
    target: Target
    client_id: str
    message_id: str = ""
    taken: str = ""  # the row of the outbox that takes its place: from then on it is never removed


class LiveDraft:
    """One growing message. `touch` it as often as there is something new; edits keep the channel's pace."""

    def __init__(self, drafts: LiveDrafts, item: str, channel: Channel, first: Reply) -> None:
        self._drafts = drafts
        self._item = item
        self._first = first
        self._target = first.target
        self._channel = channel
        self._shown = ""
        self._make: Callable[[], str] = str
        self._fresh = asyncio.Event()
        self._calls = asyncio.Lock()  # held while the platform is spoken to
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self.over = False

    def touch(self, make: Callable[[], str]) -> None:
        """There is something new: `make` gives the text when it is time to show it ("" for nothing)."""
        if self.over:
            return
        self._make = make
        self._fresh.set()
        if self._task is None:
            self._task = asyncio.ensure_future(self._work())

    async def stop(self) -> None:
        """No more edits; returns when none is on its way."""
        self.over = True
        async with self._calls:
            self.halt()

    def halt(self) -> None:
        """At once, whatever is on its way."""
        self.over = True
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> None:
        try:
            while not self.over and self._failures < TRIES:
                await self._fresh.wait()
                self._fresh.clear()
                wait = self._channel.abilities.pace
                async with self._calls:
                    text = "" if self.over else self._make()
                    if text and text != self._shown:
                        wait = max(wait, await self._put(text))
                await self._drafts.clock.sleep(wait)
        except PalinurusError as exc:  # the store is out of order: the answer itself will say so
            log.warning("draft for %s: %s", self._item, exc.message)
        except Exception:  # task boundary: a draft is never worth a run
            log.exception("draft for %s failed", self._item)

    async def _put(self, text: str) -> float:
        """Show it; returns the seconds the platform wants us to wait."""
        kept = await self._drafts.known(self._item, self._channel)
        if kept is None or kept.target != self._target:
            done: SendReceipt | SendFailure = await self._drafts.send(
                self._item, self._channel, msgspec.structs.replace(self._first, text=text)
            )
        else:
            done = await call_platform(self._channel.act(self._target, EditAction(kept.message_id, text)))
        if isinstance(done, SendReceipt):
            self._shown, self._failures = text, 0
            return 0.0
        if done.trouble != "limited":
            self._failures += 1
        return done.retry_after or 0.0


class LiveDrafts:
    """All of them. `load` at the start, before runs are taken up again."""

    def __init__(self, store: Store, channels: Mapping[str, Channel], clock: Clock) -> None:
        self._store = store
        self._channels = channels
        self.clock = clock
        self._kept: dict[str, DraftRecord] = {}  # by item: the draft that grows
        self._taken: dict[str, DraftRecord] = {}  # by item: the draft whose place a row is taking
        self._open: dict[str, LiveDraft] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._rests: set[asyncio.Future[None]] = set()  # between two tries of removing one
        self._closed = False

    async def load(self, channel: str = "") -> None:
        """Take up what a crash left, or of a channel what the node that spoke for it before us left: the drafts of
        messages whose answer has gone out are removed."""
        found = set()
        for row in await self._store.list_records(KIND):
            try:
                kept = msgspec.json.decode(row.data, type=DraftRecord)
            except msgspec.MsgspecError:  # of another version
                await self._store.put_record(KIND, row.key, None)
                continue
            held = self._taken if kept.taken else self._kept
            if channel in (kept.target.channel, "") and kept.item not in held:
                held[kept.item] = kept
                found.add(kept.item)
        for item in found:
            await self._tidy(item)

    def on_ended(self, item: str) -> None:
        """A run is over, or a reply of it is never sent: a draft whose place nothing will take goes."""
        if item in self._kept or item in self._taken or item in self._open:
            self._start(item, self._tidy(item))

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        """Nothing is shown yet."""

    def on_started(self, item: str, session: str, inbound: Inbound) -> None:
        """Its speaker opens a draft."""

    on_event = None  # its speaker hears them, too

    def on_merged(self, item: str, into: str) -> None:
        """It had no run of its own."""

    async def _tidy(self, item: str) -> None:
        if await self._wanted(item):
            return
        if (kept := self._taken.get(item)) is not None:
            row = await self._store.reply(kept.taken)
            if row is not None and row.state != "cancelled":
                await self.done(item)  # it is the answer now
            else:
                self._kept[item] = await self._note(msgspec.structs.replace(self._taken.pop(item), taken=""))
        self.drop(item)

    async def _wanted(self, item: str) -> bool:
        """Will a row of the outbox take its place?"""
        row = await self._store.item(item)
        if row is None or (row.state == "running" and row.outcome is not None):  # stopped: there is no answer
            return False
        if row.state != "done":
            return True
        return any(step.what in ("waiting", "uncertain") for step in await self._store.trace(item))

    def open(self, item: str, target: Target, reply_to: str = "") -> LiveDraft | None:
        """A draft for the answer to `item`, as a reply to `reply_to`; None where messages cannot be edited."""
        channel = self._channels.get(target.channel)
        if channel is None or "edit" not in channel.abilities.acts:
            return None
        made = self._open[item] = LiveDraft(self, item, channel, Reply(target, "", "", "draft", reply_to=reply_to))
        return made

    async def known(self, item: str, channel: Channel) -> DraftRecord | None:
        """The draft people see; None if there is none (or nobody can tell)."""
        kept = self._kept.get(item)
        return await self._seen(kept, channel) if kept is not None else None

    async def _seen(self, kept: DraftRecord, channel: Channel) -> DraftRecord | None:
        if kept.message_id:
            return kept
        found = await call_platform(channel.find(Reply(kept.target, "", kept.client_id, "draft")))
        if isinstance(found, SendReceipt):
            return await self._note(msgspec.structs.replace(kept, message_id=found.message_id))
        await self._forget(kept)
        return None

    async def send(self, item: str, channel: Channel, reply: Reply) -> SendReceipt | SendFailure:
        """A new draft, on record before and after."""
        self._count += 1
        kept = DraftRecord(
            item, reply.target, f"{item}.d{self.clock.now()}-{self._count}"
        )  # an id that no other draft ever had
        self._kept[item] = await self._note(kept)
        done = await call_platform(channel.send(msgspec.structs.replace(reply, client_id=kept.client_id)))
        if isinstance(done, SendReceipt):
            await self._note(msgspec.structs.replace(kept, message_id=done.message_id))
        elif done.trouble != "cut":
            await self._forget(kept)
        return done

    async def take(self, item: str, row: str, target: Target) -> str:
        """The id of the draft whose place this row is to take, until it is `done`; "" if there is none. The draft is
        not edited any more; what grows from now on is another."""
        if item in self._taken and self._taken[item].taken != row:
            await self.done(item)  # rows go in order: the one before has its receipt
        if item not in self._taken:
            if (draft := self._open.pop(item, None)) is not None:
                await draft.stop()
            if (kept := self._kept.get(item)) is None or kept.target != target:
                return ""
            self._taken[item] = self._kept.pop(item)
            await self._note(msgspec.structs.replace(kept, taken=row))
        channel = self._channels.get(target.channel)
        known = await self._seen(self._taken[item], channel) if channel is not None else None
        if known is None:
            self._taken.pop(item, None)
            return ""
        return known.message_id

    def holds(self, item: str, row: str) -> bool:
        """Is there a draft whose place this row was taking? Doing that again changes nothing."""
        return item in self._taken and self._taken[item].taken == row

    async def done(self, item: str) -> None:
        """A row has taken its place, and its receipt is on disk."""
        if (kept := self._taken.get(item)) is not None:
            await self._forget(kept)

    def drop(self, item: str) -> None:
        """Take it away: there will be no answer in its place."""
        draft = self._open.pop(item, None)
        if draft is None and item not in self._kept:
            return
        self._start(item, self._remove(item, draft))

    def _start(self, item: str, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(self._guard(item, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, item: str, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except Exception:  # task boundary: best effort; the next start tries again
            log.exception("draft for %s was not removed", item)

    async def _remove(self, item: str, draft: LiveDraft | None) -> None:
        if draft is not None:
            await draft.stop()
        for wait in REMOVALS:  # while the platform is away; after that the next start tries again
            if (kept := self._kept.get(item)) is None or await self._delete(kept) or self._closed:
                return
            rest = asyncio.ensure_future(self.clock.sleep(wait))
            self._rests.add(rest)
            await asyncio.wait((rest,))
            self._rests.discard(rest)
            if rest.cancelled():
                return

    async def _delete(self, kept: DraftRecord) -> bool:
        """Remove the message, if the platform lets us. False: not now."""
        channel = self._channels.get(kept.target.channel)
        known = await self._seen(kept, channel) if channel is not None else None
        if channel is not None and known is not None and "delete" in channel.abilities.acts:
            done = await call_platform(channel.act(kept.target, DeleteAction(known.message_id)))
            if isinstance(done, SendFailure) and done.trouble in ("down", "limited", "cut"):
                return False
        await self._forget(kept)
        return True

    async def close(self) -> None:
        """Stop editing. Drafts of runs that were put aside, or could not be removed, stay on record."""
        self._closed = True
        for draft in self._open.values():
            draft.halt()
        for rest in self._rests:
            rest.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=PATIENCE)

    async def _note(self, kept: DraftRecord) -> DraftRecord:
        for held in (self._kept, self._taken):
            if kept.item in held and held[kept.item].client_id == kept.client_id:
                held[kept.item] = kept
        await self._store.put_record(KIND, kept.client_id, msgspec.json.encode(kept))
        return kept

    async def _forget(self, kept: DraftRecord) -> None:
        for held in (self._kept, self._taken):
            if kept.item in held and held[kept.item].client_id == kept.client_id:
                del held[kept.item]
        await self._store.put_record(KIND, kept.client_id, None)


async def call_platform(work: Awaitable[SendReceipt | SendFailure | None]) -> SendReceipt | SendFailure:
    """A call of the platform that takes no longer than it should; None counts as not found."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await work or SendFailure("not found", "gone")
    except TimeoutError:
        return SendFailure(f"no answer within {PATIENCE:g} s", "cut")
