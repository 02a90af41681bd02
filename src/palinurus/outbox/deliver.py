"""Outbox rows -> platforms: in order per target, with receipts, again after failures, never twice if it can be helped.

Before a part is sent its row says `sending`, on disk. A row found in that state after a crash is uncertain: it
is looked up on the platform, or sent again where the platform drops repeats; otherwise it is sent once more at
most, and the trace says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import msgspec

from palinurus.clock import Clock
from palinurus.core.types.channel import Channel, NotSent, Sent
from palinurus.core.types.outbound import Reply
from palinurus.errors import StateError
from palinurus.plugins.hooks import Hooks
from palinurus.points import point
from palinurus.store.port import Outgoing, Store

log = logging.getLogger(__name__)

WAITS = (1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)  # seconds before the next try
FATAL = frozenset(("blocked", "gone", "refused"))
LOOK = 30.0  # seconds between looks when nothing wakes us: rows whose time has come

_decoder = msgspec.json.Decoder(Reply)


class Deliverer:
    """One worker a channel; `wake` when rows were added."""

    def __init__(self, store: Store, channels: Mapping[str, Channel], hooks: Hooks, clock: Clock) -> None:
        self._store = store
        self._channels = channels
        self._hooks = hooks
        self._clock = clock
        self._wakes = {name: asyncio.Event() for name in channels}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.ensure_future(self._work(c)) for c in self._channels.values()]

    def wake(self, channel: str) -> None:
        if channel in self._wakes:
            self._wakes[channel].set()

    async def stop(self) -> None:
        """Workers end between two parts; what is left waits on disk."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self, channel: Channel) -> None:
        wake = self._wakes[channel.name]
        while True:
            wake.clear()
            pause = LOOK
            try:
                while rows := await self._store.outgoing(channel.name, self._clock.now()):
                    waits = await asyncio.gather(*(self._part(channel, row) for row in rows))
                    pause = min([LOOK, *(w for w in waits if w is not None)])
                    if not any(w is None for w in waits):
                        break
            except StateError as exc:
                log.error("channel %s: %s", channel.name, exc.message)
            except Exception:  # task boundary: logged; the rest goes on
                log.exception("channel %s: delivery failed", channel.name)
            timer = asyncio.get_running_loop().call_later(pause, wake.set)
            await wake.wait()
            timer.cancel()

    async def _part(self, channel: Channel, row: Outgoing) -> float | None:
        """Deliver one part. Returns None when it is settled, else the seconds until it may be tried again."""
        reply = _decoder.decode(row.data)
        if row.state == "sending":
            found = await channel.find(reply)
            if found is not None:
                await self._store.delivered(row.id, found.message_id, self._clock.now())
                return None
            if not channel.dedupes and row.attempts > 1:
                await self._give_up(row, "not known whether it arrived; not sent a third time")
                return None
        changed = await self._sending(reply)
        if changed is None:
            await self._give_up(row, "cancelled by a message_sending hook")
            return None
        row = await self._store.sending(row.id, self._clock.now())
        result = await channel.send(changed)
        if isinstance(result, Sent):
            point("outbox.sent")
            await self._store.delivered(row.id, result.message_id, self._clock.now())
            self._sent(changed, result.message_id, None)
            return None
        return await self._failed(channel, row, changed, result)

    async def _sending(self, reply: Reply) -> Reply | None:
        if not self._hooks.has("message_sending"):
            return reply
        change = await self._hooks.modify(
            "message_sending", {"to": reply.target.to, "channel": reply.target.channel, "content": reply.text}
        )
        if change.get("cancel"):
            return None
        return msgspec.structs.replace(reply, text=str(change.get("content", reply.text)))

    async def _failed(self, channel: Channel, row: Outgoing, reply: Reply, result: NotSent) -> float | None:
        if result.trouble in FATAL or row.attempts > len(WAITS):
            self._sent(reply, "", result.reason)
            await self._give_up(row, result.reason)
            return None
        if result.trouble == "cut":
            found = await channel.find(reply)
            if found is not None:
                await self._store.delivered(row.id, found.message_id, self._clock.now())
                return None
            if not channel.dedupes and row.attempts > 1:
                await self._give_up(row, f"{result.reason}; not known whether it arrived")
                return None
        wait = result.retry_after if result.retry_after is not None else WAITS[min(row.attempts, len(WAITS)) - 1]
        await self._store.undelivered(row.id, result.reason, self._clock.now() + int(wait * 1000))
        return wait

    async def _give_up(self, row: Outgoing, why: str) -> None:
        log.warning("reply %s to %s: %s", row.id, row.channel, why)
        await self._store.undelivered(row.id, why, None)

    def _sent(self, reply: Reply, message_id: str, error: str | None) -> None:
        payload = {"to": reply.target.to, "content": reply.text, "success": error is None, "messageId": message_id}
        self._hooks.observe("message_sent", {**payload, "error": error})
