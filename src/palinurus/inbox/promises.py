"""Open promises: what the agent said it would do, where nothing is set up that would make it so. Follows every run;
a promise becomes an open item on disk, which its owner accepts (then it is a job) or dismisses.

Killed between a reply and its record: the promise goes unnoticed, and no other harm is done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from palinurus.core import commitments
from palinurus.core.policy import taint
from palinurus.core.stream.answer import spoken
from palinurus.core.types.events import AgentEnd, Event
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import session_key
from palinurus.core.types.messages import Assistant, ToolCall
from palinurus.errors import StateError
from palinurus.store.port import Store

log = logging.getLogger(__name__)

KIND = "promise"
KEPT = 14 * 86_400_000  # milliseconds an open item stays
MOST = 50
MAKERS = frozenset(("cron", "sessions_spawn"))  # a run that used one has set something up
_PEOPLE = frozenset(("main", "direct", "group", "other"))  # kinds of sessions in which somebody is promised something


class Open(msgspec.Struct, frozen=True, omit_defaults=True):
    """An open item. `source`: whose words the run had seen (taint)."""

    id: str
    session: str
    agent: str
    text: str
    at: int
    channel: str = ""
    to: str = ""
    account: str = ""
    source: str = ""


class Promises:
    """A follower of the inbox. `pending(session, text)`: is something under way that keeps this promise?"""

    def __init__(self, store: Store, pending: Callable[[str, str], bool]) -> None:
        self._store = store
        self._pending = pending
        self._turns: dict[str, tuple[str, Inbound]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def came(self, item: str, session: str, inbound: Inbound) -> None:
        """Nothing yet."""

    def merged(self, item: str, into: str) -> None:
        """Nothing: the run it became part of goes on."""

    def began(self, item: str, session: str, inbound: Inbound) -> None:
        """Remember whose turn it is."""
        key = session_key(session)
        if key is not None and key.kind in _PEOPLE and not inbound.system:
            self._turns[item] = session, inbound

    def shown(self, item: str, event: Event) -> None:
        """Look at what was said when the run is over."""
        if type(event) is not AgentEnd or item not in self._turns or event.end != "stop":
            return
        session, inbound = self._turns[item]
        said = [message for message in event.messages if isinstance(message, Assistant)]
        calls = {block.name for message in said for block in message.content if isinstance(block, ToolCall)}
        if calls & MAKERS:
            return
        key = session_key(session)
        # Only the last words count: what is said before a tool call is done by it.
        for at, promise in enumerate(commitments.found(spoken(said[-1:]))):
            if key is None or self._pending(session, promise.text):
                continue
            place = inbound.target
            source = ", ".join(taint.of(event.messages))[:80]
            made = Open(
                f"{item}-{at}", session, key.agent, promise.text, event.ended, place.channel, place.to, place.account,
                source,
            )  # fmt: skip
            task = asyncio.ensure_future(self._keep(made))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def ended(self, item: str) -> None:
        """Forget the turn."""
        self._turns.pop(item, None)

    async def close(self) -> None:
        """When all that was noticed is on disk."""
        await asyncio.gather(*self._tasks)

    async def _keep(self, made: Open) -> None:
        try:
            await self._store.keep(KIND, made.id, msgspec.json.encode(made), expect=None)
        except StateError as exc:  # a full disk: the reply was what mattered
            log.warning("a promise could not be noted: %s", exc.message)


async def opened(store: Store, now: int, session: str | None = None) -> list[Open]:
    """The open items (of one session), oldest first; those that are too old or too many go."""
    every: list[Open] = []
    for kept in await store.all_kept(KIND):
        try:
            every.append(msgspec.json.decode(kept.data, type=Open))
        except msgspec.DecodeError:
            await store.keep(KIND, kept.key, None)
    every.sort(key=lambda one: one.at)
    stay = [one for one in every if now - one.at <= KEPT][-MOST:]
    for old in every:
        if old not in stay:
            await store.keep(KIND, old.id, None)
    return [one for one in stay if session in (None, one.session)]


async def closed(store: Store, one: Open) -> bool:
    """It is no longer open. False: somebody else closed it."""
    return await store.keep(KIND, one.id, None, expect=msgspec.json.encode(one))


def job_for(one: Open, due: int) -> dict[str, Any]:
    """The job that keeps the promise, in the session that heard it."""
    return {
        "name": one.text[:60],
        "schedule": {"kind": "at", "at": due},
        "sessionTarget": f"session:{one.session}",
        "payload": {"kind": "agentTurn", "message": f"You said: “{one.text}” Do it now and tell the person."},
        "delivery": {"mode": "announce", "channel": one.channel, "to": one.to, "accountId": one.account},
    }
