"""When a block of a growing answer goes, and which small ones go as one message. Decisions only, for `deliver.py`.

All blocks are rows on disk before they come here. What is held is held in memory: after a crash nothing waits and
nothing is joined, so nothing is lost. What is about to be sent as one message is written down first (`JoinedBlocks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from palinurus.clock import Clock
from palinurus.core.stream.chunk import Coalescer, CoalesceSettings, HumanDelay
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.store.port import Store

KIND = "joined"  # of the records
YOUNG = 500  # milliseconds within which a row that is on disk is announced
OLD = 172_800_000  # milliseconds; no row waits that long
SOON = 0.02  # seconds until one that was not announced yet is looked at again


class PaceRules(msgspec.Struct, frozen=True):
    """The pace of one account and agent."""

    join: CoalesceSettings
    human: HumanDelay = HumanDelay()


class JoinedBlocks(msgspec.Struct, frozen=True):
    """Rows that go as one message, under the first one's id."""

    ids: tuple[str, ...]
    text: str


class _Chat:
    """One chat in which an answer grows."""

    def __init__(self, rules: PaceRules) -> None:
        self.rules = rules
        self.held = Coalescer(rules.join)
        self.groups: dict[str, list[str]] = {}  # ids by the first of their group, held and ready ones
        self.ready: dict[str, str] = {}  # text by first id
        self.known: set[str] = set()  # ids that were announced
        self.sent = 0  # blocks of this answer that were shown
        self.next = 0.0  # when the next one may be


class BlockPacer:
    """`begin` an answer; `queued` hears of replies that are in the outbox; `wait` and `joined` are asked before a row
    is sent. A chat in which no answer began (in this process) has no pace."""

    def __init__(self, clock: Clock, draw: Callable[[], float]) -> None:
        self._clock = clock
        self._draw = draw
        self._chats: dict[Target, _Chat] = {}

    def begin(self, target: Target, rules: PaceRules) -> None:
        """An answer in blocks begins in this chat."""
        if target not in self._chats:
            self._chats[target] = _Chat(rules)

    def on_queued(self, replies: Iterable[Reply]) -> None:
        """Blocks wait for others; anything else lets them go."""
        for reply in replies:
            chat = self._chats.get(reply.target)
            if chat is not None and reply.kind == "block":
                self._add(chat, reply)
            elif chat is not None:
                self._let(chat, chat.held.close())

    def end(self, target: Target) -> None:
        """The answer is complete: nothing is held any more."""
        if chat := self._chats.get(target):
            self._let(chat, chat.held.close())
            if not chat.ready:
                del self._chats[target]

    def _add(self, chat: _Chat, reply: Reply) -> None:
        chat.known.add(reply.client_id)
        before = chat.held.first
        out = chat.held.add(reply, self._now())
        alone = chat.held.first == reply.client_id or any(one.client_id == reply.client_id for one in out)
        chat.groups.setdefault(reply.client_id if alone else before, []).append(reply.client_id)
        self._let(chat, out)

    def _let(self, chat: _Chat, out: list[Reply]) -> None:
        for one in out:
            chat.ready[one.client_id] = one.text

    def wait(self, reply: Reply, age: int = YOUNG) -> float:
        """Seconds before this row, the first of its chat, may go; 0: now. `age`: milliseconds since it was stored."""
        chat = self._chats.get(reply.target)
        if chat is None or reply.kind != "block":
            return 0.0
        if reply.client_id not in chat.known and age < YOUNG:
            return SOON
        if reply.client_id == chat.held.first:
            self._let(chat, chat.held.tick(self._now()))
            if reply.client_id == chat.held.first and chat.held.due is not None:
                return max(0.01, (chat.held.due - self._now()) / 1000)
        return max(0.0, chat.next - self._clock.monotonic())

    def find_joined(self, reply: Reply) -> JoinedBlocks | None:
        """The message this row is the first of; None if it goes alone."""
        chat = self._chats.get(reply.target)
        ids = chat.groups.get(reply.client_id, []) if chat else []
        return JoinedBlocks(tuple(ids), chat.ready[reply.client_id]) if chat and len(ids) > 1 else None

    def on_gone(self, reply: Reply) -> None:
        """It was shown, or never will be."""
        chat = self._chats.get(reply.target)
        if chat is None:
            return
        if reply.kind != "block":  # the answer itself: what comes next is another
            if not chat.held.first and not chat.ready:
                del self._chats[reply.target]
            return
        chat.groups.pop(reply.client_id, None)
        chat.ready.pop(reply.client_id, None)
        chat.sent += 1
        chat.next = self._clock.monotonic() + chat.rules.human.pause(chat.sent, self._draw()) / 1000

    def _now(self) -> int:
        return round(self._clock.monotonic() * 1000)


async def sweep_joined_records(store: Store, now: int) -> None:
    """Drop records of messages that were settled long ago: a crash came between the receipt and the record's end."""
    for kept in await store.list_records(KIND):
        if kept.at < now - OLD:
            await store.put_record(KIND, kept.key, None, expect=kept.data)
