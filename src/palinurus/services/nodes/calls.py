"""What was asked of nodes, on disk: a command is written down before it is sent, and is never sent again.

    (none) ──► sent ──► done       answered; the same key gets the same answer
                  └──► (sent)      nobody answered: the node went, time ran out, or the gateway was killed

A key that is found `sent` is told "outcome unknown": whether the command ran is not known, so it is not repeated.
"""

from __future__ import annotations

import hashlib

import msgspec

from palinurus.clock import Clock
from palinurus.core.types.node import NodeAnswer, NodeOrder
from palinurus.errors import BadRequest
from palinurus.store.records import Records, RecordStore

KIND = "node-call"
KEPT_MS = 24 * 3600 * 1000
SWEEP_MS = 3600 * 1000
MAX_ANSWER = 64 * 1024  # bytes of an answer that is kept for whoever asks again
UNKNOWN = "outcome unknown: it was sent to the node, and no answer came back. It is not repeated."


class NodeCallRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One command."""

    node: str
    command: str
    digest: str  # of node, command and params: a key belongs to one of them
    at: int
    answer: NodeAnswer | None = None


class NodeCalls:
    """The rows, by the key that the caller gave."""

    def __init__(self, store: RecordStore, clock: Clock) -> None:
        self._records = Records(store, KIND, NodeCallRow)
        self._clock = clock
        self._swept = 0

    async def begin(self, order: NodeOrder) -> NodeAnswer | None:
        """None: it is on disk that this is sent now. Else what became of the same order before.
        Raises BadRequest for a key of another order, StateError kinds."""
        await self._sweep()
        row = NodeCallRow(order.node, order.command, digest_order(order), self._clock.now())
        if await self._records.swap(order.key, None, row):
            return None
        known = await self._records.get(order.key)
        if known is None:  # one that cannot be read: it may have been sent
            return make_unknown()
        if known.digest != row.digest:
            raise BadRequest("this idempotencyKey belongs to another command")
        return known.answer or make_unknown()

    async def end(self, order: NodeOrder, answer: NodeAnswer) -> None:
        """It was answered. Raises StateError kinds."""
        if answer.unknown:
            return
        if len(msgspec.json.encode(answer)) > MAX_ANSWER:
            answer = NodeAnswer(answer.ok, None, "DONE", "it was answered before; so long an answer is not kept")
        await self._records.update(order.key, lambda row: row and msgspec.structs.replace(row, answer=answer))

    async def forget(self, order: NodeOrder) -> None:
        """It was not sent after all."""
        await self._records.drop(order.key)

    async def _sweep(self) -> None:
        now = self._clock.now()
        if self._swept and now - self._swept < SWEEP_MS:
            return
        self._swept = now
        for key, row in (await self._records.all()).items():
            if row.at + KEPT_MS < now:
                await self._records.drop(key)


def make_unknown(why: str = "") -> NodeAnswer:
    """Sent, and nobody knows what came of it."""
    return NodeAnswer(False, None, "UNKNOWN_OUTCOME", f"{why}; {UNKNOWN}" if why else UNKNOWN, unknown=True)


def digest_order(order: NodeOrder) -> str:
    """What makes two orders the same."""
    data = msgspec.json.encode([order.node, order.command, dict(order.params)], order="sorted")
    return hashlib.sha256(data).hexdigest()
