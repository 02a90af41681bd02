"""Cards of approvals on people's screens: when the question is decided, the card says so and loses its buttons.

Which message a card is, is on record, so that a card that was shown before a restart is set right as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from weakref import WeakValueDictionary

import msgspec

from palinurus.core.types.channel import Channel, DeleteAction, EditAction
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.outbox.drafts import call_platform
from palinurus.store.port import Store
from palinurus.store.records import Records
from palinurus.tasks import TaskSet

KIND = "card"  # of the records, by the id of the question
MARK = ".a-"  # in a client id: what follows is the id of the question (`blocks.py`)
CLOSED = "this question is no longer open"


class CardMessage(msgspec.Struct, frozen=True):
    """A card that was shown."""

    target: Target
    message_id: str
    text: str


class ApprovalCards:
    """`shown` hears of messages, `decided` of decisions, in any order."""

    def __init__(
        self,
        store: Store,
        channels: Mapping[str, Channel],
        tasks: TaskSet,
        removes: Callable[[Target], bool] = lambda target: False,  # cards of closed questions go away there
    ) -> None:
        self._removes = removes
        self._records = Records(store, KIND, CardMessage)
        self._channels = channels
        self._tasks = tasks
        self._decided: dict[str, str] = {}  # words by question, of this process
        self._mending: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by question

    def on_shown(self, reply: Reply, message_id: str) -> None:
        """A message was shown; those that are no cards are nobody's business here."""
        question = parse_question_id(reply.client_id)
        channel = self._channels.get(reply.target.channel)
        if question and channel is not None and message_id and "edit" in channel.abilities.acts:
            card = CardMessage(reply.target, message_id, reply.text)
            self._tasks.start(self._keep(question, card))

    def on_decided(self, question: str, words: str) -> None:
        """The question is closed; `words` say how."""
        self._decided[question] = words
        while len(self._decided) > 1000:
            del self._decided[next(iter(self._decided))]
        self._tasks.start(self._mend(question))

    async def load(self, open_ones: Collection[str]) -> None:
        """At the start: cards of questions that were closed while nobody looked."""
        for question in await self._records.all():
            if question not in open_ones:
                self.on_decided(question, CLOSED)

    async def _keep(self, question: str, card: CardMessage) -> None:
        await self._records.put(question, card)
        if question in self._decided:
            await self._mend(question)

    async def _mend(self, question: str) -> None:
        async with self._mending.setdefault(question, asyncio.Lock()):  # shown and decided at once: one of them does it
            card = await self._records.get(question)
            if card is None:  # not shown yet, or set right already
                return
            channel = self._channels.get(card.target.channel)
            if channel is not None:
                text = f"{card.text.rsplit(chr(10), 1)[0]}\n— {self._decided.get(question, CLOSED)}"
                gone = self._removes(card.target) and "delete" in channel.abilities.acts
                act = DeleteAction(card.message_id) if gone else EditAction(card.message_id, text, plain=True)
                await call_platform(channel.act(card.target, act))
            await self._records.swap(question, card, None)  # if it is another by now, who put that there comes next


def parse_question_id(client_id: str) -> str:
    """The question whose card has this id; "" if it is none. A card that is cut has its buttons on the last part."""
    _, mark, rest = client_id.partition(MARK)
    return rest.split(".")[0] if mark else ""
