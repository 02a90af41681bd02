"""A channel in the process: what a human would have seen, and every way a platform can go wrong on the way there.

Knows nothing of the outbox. A fault is a value put in `faults`; each send takes one, then all is well again.
"""

from __future__ import annotations

import asyncio
from typing import Literal, TypeAlias

import msgspec

from palinurus.channels.kit import BasicChannel
from palinurus.core.types.channel import (
    ChannelAbilities,
    ChannelAction,
    DeleteAction,
    EditAction,
    SendFailure,
    SendReceipt,
    SendResult,
    SubmitInbound,
)
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.outbound import Reply

# lost: not shown, nobody knows; shown: shown, the acknowledgement was lost; late: shown, acknowledged when
# `release()` is called; limited: 429; refused: never will be; down: not now; raises: breaks the port's promise
ChannelFault: TypeAlias = Literal["lost", "shown", "late", "limited", "refused", "down", "raises"]

_ANSWERS: dict[str, SendFailure] = {
    "lost": SendFailure("the connection was cut", "cut"),
    "shown": SendFailure("the connection was cut", "cut"),
    "limited": SendFailure("too many requests", "limited", retry_after=1.0),
    "refused": SendFailure("the chat does not exist", "gone"),
    "down": SendFailure("connection refused", retry_after=0.5),
}
_SHOWN = ("shown", "late")
_PLAIN = ChannelAbilities()


class FakeChannelMessage(msgspec.Struct, frozen=True):
    """One message on the human's screen."""

    message_id: str
    to: str
    text: str
    client_id: str
    kind: str


def _is(one: FakeChannelMessage, act: EditAction | DeleteAction) -> bool:
    return one.message_id == act.message_id


class FakeChannel(BasicChannel):
    """Implements `core.types.channel.Channel`.

    dedupes: the platform shows a client_id once however often it is sent. finds: `find` can read back. What it is
    asked besides (`act`) is in `acts`; edits and deletions change what was `seen`. owner: who writes is the owner.
    """

    def __init__(
        self,
        name: str = "fake",
        *,
        dedupes: bool = False,
        finds: bool = True,
        abilities: ChannelAbilities = _PLAIN,
        owner: bool = False,
    ) -> None:
        super().__init__()
        self._owner = owner
        self.name = name
        self.dedupes = dedupes
        self.abilities = abilities
        self._finds = finds
        self._submit: SubmitInbound | None = None
        self._running = asyncio.Event()
        self._released = asyncio.Event()
        self.seen: list[FakeChannelMessage] = []
        self.sends: list[Reply] = []  # every call of `send`, those that failed included
        self.faults: list[ChannelFault | None] = []
        self.acts: list[tuple[Target, ChannelAction]] = []
        self.accepted: list[str] = []  # ids `submit` has returned: what the platform was acknowledged

    async def run(self, submit: SubmitInbound) -> None:
        """Receive until cancelled. Messages come from `receive`."""
        self._submit = submit
        self._running.set()
        self.set_status("ready")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._running.clear()
            self._submit = None

    async def receive(
        self, text: str, *, event: str, sender: str = "human", to: str = "chat", times: int = 1
    ) -> list[str]:
        """A human writes; with `times` > 1 the platform delivers the same event again. Returns the ids given."""
        await asyncio.wait_for(self._running.wait(), 10)
        assert self._submit is not None
        inbound = Inbound(Target(self.name, to), Sender(sender, owner=self._owner), event, text, at=0)
        ids = [await self._submit(inbound) for _ in range(times)]
        self.accepted += ids
        return ids

    async def send(self, reply: Reply) -> SendResult:
        """Show it, or fail as the next fault says."""
        self.sends.append(reply)
        fault = self.faults.pop(0) if self.faults else None
        if fault == "raises":
            raise RuntimeError("a channel that raises")
        if fault is not None and fault not in _SHOWN:
            return _ANSWERS[fault]
        sent = self._show(reply)
        if fault == "late":
            await self._released.wait()
        return _ANSWERS["shown"] if fault == "shown" else sent

    async def find(self, reply: Reply) -> SendReceipt | None:
        """The message already shown for this client_id, if the platform can tell."""
        return self._known(reply) if self._finds else None

    async def act(self, target: Target, act: ChannelAction) -> SendResult:
        """Note it; an edit or a deletion changes what the human sees."""
        self.acts.append((target, act))
        if isinstance(act, (EditAction, DeleteAction)):
            self.seen = [
                msgspec.structs.replace(one, text=act.text) if isinstance(act, EditAction) and _is(one, act) else one
                for one in self.seen
                if isinstance(act, EditAction) or not _is(one, act)
            ]
            return SendReceipt(act.message_id)
        return SendReceipt("")

    def release(self) -> None:
        """Let acknowledgements that are late arrive."""
        self._released.set()

    @property
    def texts(self) -> list[str]:
        """What the human read, in order."""
        return [one.text for one in self.seen]

    @property
    def duplicate_ids(self) -> list[str]:
        """client_ids the human saw more than once."""
        ids = [one.client_id for one in self.seen]
        return sorted({ident for ident in ids if ids.count(ident) > 1})

    def _known(self, reply: Reply) -> SendReceipt | None:
        return next((SendReceipt(one.message_id) for one in self.seen if one.client_id == reply.client_id), None)

    def _show(self, reply: Reply) -> SendReceipt:
        known = self._known(reply) if self.dedupes else None
        if known is not None:
            return known
        ident = f"{self.name}-{len(self.seen) + 1}"
        self.seen.append(FakeChannelMessage(ident, reply.target.to, reply.text, reply.client_id, kind=reply.kind))
        return SendReceipt(ident)
