"""From a channel's hands to the inbox: through the door of `inbox/access.py`, and for some chats to several agents."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Protocol

import msgspec

from palinurus.channels import CHANNELS
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.outbound import Reply
from palinurus.core.untrusted import clean_label
from palinurus.inbox.access import AdmittedMessage, ChannelAccess, RejectedMessage
from palinurus.inbox.message import InboxMessage, MessageReader
from palinurus.inbox.pairing import ChatPairing, PairingPerson, make_person_key
from palinurus.outbox.post import OutboxPost
from palinurus.services.inbox import InboxPort
from palinurus.store.port import Acceptance, Store
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)


class Submit(Protocol):
    """Puts a message on disk."""

    def __call__(self, inbound: Inbound, /, *, message: InboxMessage | None) -> Awaitable[Acceptance]: ...


class GuestRuns:
    """Implements `RunFollower`: whose messages are under way. What somebody who is put out has going is stopped."""

    def __init__(self, inbox: InboxPort) -> None:
        self._inbox = inbox
        self._of: dict[str, str] = {}  # by message: the person's key
        self._tasks = TaskSet("stopping somebody who was put out")

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        self._of[item] = make_person_key(inbound.target.channel, inbound.target.account, inbound.sender.id)

    on_started = on_accepted

    on_event = None

    def on_merged(self, item: str, into: str) -> None:
        pass

    def on_ended(self, item: str) -> None:
        self._of.pop(item, None)

    def stop_person(self, person: PairingPerson) -> None:
        for item in [item for item, who in self._of.items() if who == person.key]:
            self._tasks.start(self._inbox.stop_item(item))


class ChannelAdmission:
    """What channels are given as `submit`."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Clock,
        inbox: InboxPort,
        reader: MessageReader,
        submit: Submit,
        post: OutboxPost,
    ) -> None:
        self._settings = settings
        self._submit_one = submit
        self._post = post
        self.guests = GuestRuns(inbox)
        self.pairing = ChatPairing(store, clock, owned=bool(settings.people.owners), gone=self.guests.stop_person)
        own = frozenset(name for name, entry in CHANNELS.items() if entry.own)
        self._access = ChannelAccess(settings, store, clock, self.pairing, reader=reader, own=own)

    async def take(self, inbound: Inbound) -> str:
        """The id of the message on disk; "" if none came of it. Raises what `submit` raises."""
        outcome = await self._access.admit(inbound)
        if isinstance(outcome, AdmittedMessage):
            return await self._submit(outcome.inbound, outcome.message)
        if isinstance(outcome, RejectedMessage):
            level = logging.DEBUG if outcome.reply is None else logging.INFO  # a flood does not fill the log
            log.log(level, "%s: %s of %s turned away: %s", *_place(inbound), outcome.why)
            if outcome.reply is not None:
                await self.say(outcome.reply)
        return ""

    async def expects(self, inbound: Inbound) -> bool:
        """Would a turn come of it? Changes nothing."""
        return await self._access.expects(inbound)

    async def say(self, reply: Reply) -> None:
        """Put a notice into the outbox. On disk when it returns; said again it changes nothing."""
        if reply.target.channel in self._post.channels():
            await self._post.send(reply, 0.0)

    async def _submit(self, inbound: Inbound, message: InboxMessage | None) -> str:
        peer = inbound.sender.id if inbound.kind == "direct" else inbound.target.to
        agents = self._settings.people.broadcast.get(peer, ()) if inbound.sender.id and not inbound.agent else ()
        every = [
            msgspec.structs.replace(inbound, agent=agent, event=f"{inbound.event}#{agent}" if inbound.event else "")
            for agent in agents
        ]
        if every:  # each of them goes its own way
            accepted = [await self._submit_one(one, message=None) for one in every]
        else:
            accepted = [await self._submit_one(inbound, message=message)]
        if not accepted[0].duplicate:
            self._access.forget_context(inbound)
        return accepted[0].id


def _place(inbound: Inbound) -> tuple[str, str, str]:
    what = "a button" if inbound.pressed else "a message"
    return inbound.target.channel, what, clean_label(inbound.sender.id, 80) or "nobody"
