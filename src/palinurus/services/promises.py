"""Open promises: what the agent said it would do, where nothing is set up that would make it so. Follows every run;
a promise becomes an open item on disk, which its owner accepts (then it is a job) or dismisses.

Killed between a reply and its record: the promise goes unnoticed, and no other harm is done. Killed while one is
accepted: its record says so, and the next start makes the job, whose id is the promise's own, so there is one.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from palinurus import late
from palinurus.agent.marks import find_session_taint
from palinurus.core.policy.spoken import AGREED
from palinurus.core.policy.taint import write_sources
from palinurus.core.stream.answer import collect_visible_text
from palinurus.core.types.events import AgentEnd, RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import parse_session_key
from palinurus.core.types.messages import AssistantMessage, ToolCall
from palinurus.errors import BadRequest, NotFound, StateError
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcripts
from palinurus.store.port import Store
from palinurus.store.records import Records
from palinurus.tasks import TaskSet
from palinurus.tools.program.cron import CronJobMaker, SchedulerPort

log = logging.getLogger(__name__)

KIND = "promise"
KEPT = 14 * 86_400_000  # milliseconds an open item stays
MOST = 50
MAKERS = frozenset(("cron", "sessions_spawn"))  # a run that used one has set something up
_PEOPLE = frozenset(("main", "direct", "group", "other"))  # kinds of sessions in which somebody is promised something


class OpenPromise(msgspec.Struct, frozen=True, omit_defaults=True):
    """An open item. `source`: whose words the run had seen (taint). `due`: it was accepted, its job is being made."""

    id: str
    session: str
    agent: str
    text: str
    at: int
    channel: str = ""
    to: str = ""
    account: str = ""
    source: str = ""
    due: int = 0

    @property
    def job(self) -> str:
        """The id of the job that keeps it."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"promise:{self.id}"))


def open_records(store: Store) -> Records[OpenPromise]:
    """The promises on disk, by id."""
    return Records(store, KIND, OpenPromise)


class PromiseFollower:
    """A follower of the inbox. `pending(session, text)`: is something under way that keeps this promise?"""

    def __init__(self, store: Store, transcripts: Transcripts, pending: Callable[[str, str], bool]) -> None:
        self._store = store
        self._transcripts = transcripts
        self._records = open_records(store)
        self._pending = pending
        self._turns: dict[str, tuple[str, Inbound]] = {}
        self._tasks = TaskSet("noting a promise")

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        """Nothing yet."""

    def on_merged(self, item: str, into: str) -> None:
        """Nothing: the run it became part of goes on."""

    def on_started(self, item: str, session: str, inbound: Inbound) -> None:
        """Remember whose turn it is."""
        key = parse_session_key(session)
        if key is not None and key.kind in _PEOPLE and not inbound.system:
            self._turns[item] = session, inbound

    def on_event(self, item: str, event: RunEvent) -> None:
        """Look at what was said when the run is over."""
        if type(event) is not AgentEnd or item not in self._turns or event.end != "stop":
            return
        session, inbound = self._turns[item]
        said = [message for message in event.messages if isinstance(message, AssistantMessage)]
        calls = {block.name for message in said for block in message.content if isinstance(block, ToolCall)}
        if calls & MAKERS:
            return
        key = parse_session_key(session)
        # Only the last words count: what is said before a tool call is done by it.
        found = late.load_part("commitments").find_promises(collect_visible_text(said[-1:]))
        for at, promise in enumerate(found):
            if key is None or self._pending(session, promise):
                continue
            place = inbound.target
            made = OpenPromise(
                f"{item}-{at}", session, key.agent, promise, at=event.ended,
                channel=place.channel, to=place.to, account=place.account,
            )  # fmt: skip
            self._tasks.start(self._keep(made))

    def on_ended(self, item: str) -> None:
        """Forget the turn."""
        self._turns.pop(item, None)

    async def close(self) -> None:
        """When all that was noticed is on disk."""
        await self._tasks.settle()

    async def _keep(self, made: OpenPromise) -> None:
        try:
            row = await self._store.session(made.session)
            if row is not None:  # what it was made of may have been read long before
                transcript = await self._transcripts.load(SessionRecord.decode(row.data).path(made.agent))
                made = msgspec.structs.replace(made, source=write_sources(find_session_taint(transcript)))
            await self._records.swap(made.id, None, made)
        except StateError as exc:  # a full disk: the reply was what mattered
            log.warning("a promise could not be noted: %s", exc.message)


async def list_open_promises(store: Store, now: int, session: str | None = None) -> list[OpenPromise]:
    """The open items (of one session), oldest first; those that are too old or too many go."""
    records = open_records(store)
    # Those that are being accepted are not open, and not for us to remove: their jobs are yet to be made.
    every = sorted((one for one in (await records.all()).values() if not one.due), key=lambda one: one.at)
    stay = [one for one in every if now - one.at <= KEPT][-MOST:]
    for old in every:
        if old not in stay:
            await records.drop(old.id)
    return [one for one in stay if session in (None, one.session)]


async def close_promise(store: Store, one: OpenPromise) -> bool:
    """It is no longer open. False: somebody else closed it."""
    return await open_records(store).swap(one.id, one, None)


async def accept_promise(store: Store, schedules: SchedulerPort, one: OpenPromise, due: int) -> dict[str, Any] | None:
    """Make it a job; None: it is no longer open. Raises BadRequest, and it stays open."""
    taken = msgspec.structs.replace(one, due=due)
    if not await open_records(store).swap(one.id, one, taken):
        return None
    try:
        job = await schedules.add(to_job(taken), _describe_maker(one))
    except BadRequest:
        await open_records(store).swap(one.id, taken, one)
        raise
    await close_promise(store, taken)
    return job


async def resume_accepted(store: Store, schedules: SchedulerPort, now: int) -> None:
    """Finish what was being accepted when the program was stopped; what is late by now comes at once."""
    for one in (await open_records(store).all()).values():
        if not one.due:
            continue
        try:
            if not await _ran(schedules, one):
                await schedules.add(to_job(msgspec.structs.replace(one, due=max(one.due, now))), _describe_maker(one))
            await close_promise(store, one)
        except BadRequest as exc:
            log.warning("a promise was accepted, but no job was made for it: %s", exc)
            await close_promise(store, one)


def _describe_maker(one: OpenPromise) -> CronJobMaker:
    """The owner has read the words and agreed; where they came from stays known."""
    source = write_sources((AGREED, one.source)) if one.source else ""
    return CronJobMaker(one.session, one.agent, source=source, ident=one.job)


async def _ran(schedules: SchedulerPort, one: OpenPromise) -> bool:
    try:
        return bool(await schedules.runs(one.job))
    except NotFound:
        return False


def to_job(one: OpenPromise) -> dict[str, Any]:
    """The job that keeps the promise, in the session that heard it."""
    return {
        "name": one.text[:60],
        "schedule": {"kind": "at", "at": one.due},
        "sessionTarget": f"session:{one.session}",
        "payload": {"kind": "agentTurn", "message": f"You said: “{one.text}” Do it now and tell the person."},
        "delivery": {"mode": "announce", "channel": one.channel, "to": one.to, "accountId": one.account},
    }
