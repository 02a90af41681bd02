"""The board of open questions: asked by runs, answered by people, each answer used once.

A question is a record of the store (`approval`), changed by compare and set, so that of two answers one wins. It
outlives the process: an answer given after a restart serves the next try of the same thing. Faces hear of questions
through `listen`; the chat a turn came from sees the card through the run itself.

    pending ──► used        answered while its run waits
            ├─► answered ──► used      answered after its run had gone; the next try takes it
            ├─► cancelled   its run was stopped
            └─► expired     nobody answered
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import uuid
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from palinurus.clock import Clock
from palinurus.config.sections import approvals
from palinurus.core.policy import card
from palinurus.core.types.approval import ApprovalAnswer, ApprovalDecision, ApprovalRequest, ShowCard
from palinurus.errors import PalinurusError
from palinurus.store.port import Store
from palinurus.store.records import Records
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

KIND = "approval"
LAST = "approval-last"  # agent and tool -> the values of the call that was last allowed
DIGESTS = "approval-digest"  # digest -> ids of the questions that may serve the same try again: found without a search
MAX_BEFORE = 300  # characters of a card's line
SAME = 8  # questions with one digest that are kept in view
KEPT_MS = 86_400_000  # how long a finished question is remembered
SWEEP_MS = 3_600_000  # how often those that are no longer remembered are looked for
PREFIX = 4  # letters of an id that are enough, if they are unique
SHORT = 8  # letters of an id that a card shows
DECISIONS: tuple[ApprovalDecision, ...] = get_args(ApprovalDecision)

State: TypeAlias = Literal["pending", "answered", "used", "cancelled", "expired"]


class ApprovalRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question as it is kept."""

    id: str
    digest: str  # of all that decides the effect: the same thing asked again has the same
    ask: ApprovalRequest
    created: int
    expires: int
    state: State = "pending"
    decision: ApprovalDecision | None = None
    by: str = ""
    decided: int = 0

    def requested_payload(self) -> dict[str, Any]:
        """The payload of exec.approval.requested."""
        request = card.to_request_payload(self.ask)
        return {"id": self.id, "request": request, "createdAtMs": self.created, "expiresAtMs": self.expires}

    def resolved_payload(self) -> dict[str, Any]:
        """The payload of exec.approval.resolved."""
        request = card.to_request_payload(self.ask)
        return {"id": self.id, "decision": self.decision, "resolvedBy": self.by, "ts": self.decided, "request": request}


class AnswerOutcome(msgspec.Struct, frozen=True):
    """What became of an answer. `problem` is "" if it counts; `row` None: there is no such question."""

    row: ApprovalRow | None
    problem: str = ""
    note: str = ""  # what else the person should know


Listener: TypeAlias = Callable[[Literal["requested", "resolved"], ApprovalRow], None]


class ApprovalBoard:
    """Implements `core.types.approval.Approver`. One per process; `stopping` is True while the program goes down:
    a question whose run is put aside then stays open. `file`: where allow-always is kept (config/approvals)."""

    def __init__(
        self, store: Store, clock: Clock, file: str = "", stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self._store = store
        self._records = Records(store, KIND, ApprovalRow)
        self._digests = Records(store, DIGESTS, tuple[str, ...])
        self._last = Records(store, LAST, tuple[str, ...])
        self._swept = 0
        self._clock = clock
        self._file = file
        self._stopping = stopping
        self._waiting: dict[str, asyncio.Future[ApprovalAnswer]] = {}
        self._listeners: list[Listener] = []
        self._watchers: list[Listener] = []
        self._tasks = TaskSet("closing an approval")

    # asking

    async def ask(self, ask: ApprovalRequest, show: ShowCard | None = None) -> ApprovalAnswer:
        """See `Approver.ask`. With nobody to show it to and no face listening the question is kept, but not waited
        for: an answer serves the next try."""
        try:
            return await self._ask(ask, show)
        except PalinurusError as exc:  # the store is out of order: nothing is allowed that was not answered
            log.error("an approval could not be asked for: %s", exc.message)
            return ApprovalAnswer(None, f"nobody could be asked: {exc.message}")

    async def _ask(self, ask: ApprovalRequest, show: ShowCard | None) -> ApprovalAnswer:
        wanted = digest_question(ask)
        earlier = await self._earlier(wanted)
        if isinstance(earlier, ApprovalAnswer):
            return earlier
        ask = await self._compare(ask)
        row = earlier or self._row(ask, wanted)
        future: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[row.id] = future
        try:
            if earlier is None:
                await self._keep(row)
            elif told := await self._taken(row.id):
                return told
            if show is not None:
                show(row.id, card.write_approval_card(ask, row.id))
            self._tell("requested", row)
            if show is None and not self._listeners:
                return ApprovalAnswer(
                    None, f"nobody is here to answer; `pal approvals answer {row.id[:8]}` does", row.id
                )
            return await self._wait(row, future)
        except asyncio.CancelledError:
            if not self._stopping():
                self._tasks.start(self._end(row.id, "cancelled", "the run was stopped"))
            raise
        finally:
            if self._waiting.get(row.id) is future:
                del self._waiting[row.id]

    async def _compare(self, ask: ApprovalRequest) -> ApprovalRequest:
        """With what was other when the same tool was last allowed."""
        last = await self._last.get(_name_tool(ask)) if ask.values else None
        if not last:
            return ask
        other = [one.replace("=", " ", 1) for one in last if one not in ask.values]
        return msgspec.structs.replace(ask, before=", ".join(other)[:MAX_BEFORE] or "the same")

    async def _wait(self, row: ApprovalRow, future: asyncio.Future[ApprovalAnswer]) -> ApprovalAnswer:
        timer = asyncio.ensure_future(self._clock.sleep(max(0.0, (row.expires - self._clock.now()) / 1000)))
        try:
            await asyncio.wait((future, timer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
        if not future.done():
            ended = await self._end(row.id, "expired", "nobody answered in time")
            if not ended:  # somebody answered in this very moment
                await asyncio.wait((future,), timeout=1)
        return future.result() if future.done() else ApprovalAnswer(None, "nobody answered in time", row.id)

    async def _earlier(self, wanted: str) -> ApprovalAnswer | ApprovalRow | None:
        """The answer somebody gave to the same question after its run had gone, or that question, still open."""
        now = self._clock.now()
        for ident in await self._digests.get(wanted) or ():
            row = await self._records.get(ident)
            if row is None or row.digest != wanted or row.expires <= now or row.id in self._waiting:
                continue
            if row.state == "answered":
                if told := await self._taken(row.id):
                    return told
            elif row.state == "pending":
                return row
        return None

    async def _keep(self, row: ApprovalRow) -> None:
        """On disk, and found again by its digest: that first, as an id that leads nowhere is passed over."""
        await self._sweep()
        known = False
        while not known:  # of two at once the second looks again
            same = await self._digests.get(row.digest)
            known = await self._digests.swap(row.digest, same, (row.id, *(same or ()))[:SAME])
        await self._records.swap(row.id, None, row)

    async def _sweep(self) -> None:
        """Forget what is over for long. Now and then: a question must not cost more the more there were before."""
        now = self._clock.now()
        if self._swept and now - self._swept < SWEEP_MS:
            return
        self._swept = now
        rows = (await self._records.all()).values()
        gone = [row for row in rows if row.expires + KEPT_MS < now and row.id not in self._waiting]  # clocks are set
        for row in gone:
            await self._records.swap(row.id, row, None)
        for digest in {row.digest for row in gone} - {row.digest for row in rows if row not in gone}:
            await self._digests.drop(digest)

    async def _taken(self, ident: str) -> ApprovalAnswer | None:
        """The answer that came while an open question was being taken up again."""
        row = await self._records.get(ident)
        if row is None or row.state != "answered":
            return None
        taken = await self._records.swap(ident, row, msgspec.structs.replace(row, state="used"))
        return ApprovalAnswer(row.decision, row.by, ident) if taken else None

    def _row(self, ask: ApprovalRequest, wanted: str) -> ApprovalRow:
        now = self._clock.now()
        return ApprovalRow(str(uuid.uuid4()), wanted, ask, now, expires=now + round(ask.timeout * 1000))

    async def _end(self, ident: str, state: State, by: str) -> bool:
        """Close a pending question without an answer. False if it has been answered."""
        row = await self._records.get(ident)
        if row is None or row.state != "pending":
            return False
        ended = msgspec.structs.replace(row, state=state, by=by, decided=self._clock.now())
        if not await self._records.swap(ident, row, ended):
            return False
        self._tell("resolved", ended)
        return True

    # answering

    async def answer(self, ident: str, decision: str, by: str) -> AnswerOutcome:
        """Record what a person decided. `ident` is the id or the beginning of it. Raises StateError kinds."""
        row, problem = await self._find(ident)
        if row is None:
            return AnswerOutcome(None, problem)
        if decision not in DECISIONS:
            return AnswerOutcome(row, f"{decision[:40]!r} is no decision; use {', '.join(row.ask.allowed)}")
        if row.state == "pending" and self._is_over(row):
            return AnswerOutcome(row, "too late: the question has expired")
        if row.state != "pending":
            return AnswerOutcome(row, _closed(row))
        if decision not in row.ask.allowed:
            return AnswerOutcome(row, f"{decision} is not possible here; use {', '.join(row.ask.allowed)}")
        future = self._waiting.get(row.id)
        told = msgspec.structs.replace(
            row,
            state="used" if future is not None else "answered",
            decision=decision,
            by=by,
            decided=self._clock.now(),
        )
        if not await self._records.swap(row.id, row, told):
            now = await self._records.get(row.id) or row
            return AnswerOutcome(now, _closed(now))
        # The rule is there before the run goes on: the next command may be the same one.
        note = await self._remember(told) if decision == "allow-always" else ""
        if decision != "deny" and told.ask.values:  # a hint for the next card: nothing depends on it
            name = _name_tool(told.ask)
            await self._last.swap(name, await self._last.get(name), told.ask.values)
        if future is not None and not future.done():
            future.set_result(ApprovalAnswer(told.decision, by, row.id))
        self._tell("resolved", told)
        return AnswerOutcome(told, "", note)

    async def _remember(self, row: ApprovalRow) -> str:
        """Put it on the allowlist. Returns what went wrong."""
        try:
            if self._file:
                args = (self._file, row.ask.agent, row.ask.rules, "allow-always", row.decided, row.ask.command)
                await asyncio.to_thread(approvals.add_rules, *args)
                return ""
        except PalinurusError as exc:
            log.error("an allowlist rule could not be stored: %s", exc)
        return "the rule could not be stored, it counts this once"

    async def _find(self, ident: str) -> tuple[ApprovalRow | None, str]:
        if not ident:
            return None, "which one? /approve lists them"
        here = [one for one in self._waiting if one.startswith(ident.lower())] if len(ident) >= SHORT else []
        if len(here) == 1 and (row := await self._records.get(here[0])):  # what a card shows: no search
            return row, ""
        found = [row for row in (await self._records.all()).values() if row.id == ident or _short(row, ident)]
        if len(found) > 1:
            open_ones = [row for row in found if row.state == "pending"]
            found = open_ones if len(open_ones) == 1 else found
        if len(found) > 1:
            return None, f"several questions begin with {ident[:40]}; give more of the id"
        if not found:
            return None, f"unknown or expired approval id {ident[:40]}"
        return found[0], ""

    async def reread(self, ident: str) -> None:
        """Another node has asked, or somebody has answered there: faces here are told, and whoever waits here."""
        row = await self._records.get(ident)
        if row is None:
            return
        future = self._waiting.get(ident)
        told = await self._taken(ident) if future is not None and row.state == "answered" else None
        if future is not None and told is not None and not future.done():
            future.set_result(told)
        self._tell("requested" if row.state == "pending" else "resolved", row)

    # looking

    def _is_over(self, row: ApprovalRow) -> bool:
        """Has its time run out? While somebody waits for it, that is their timer's to say: clocks are set."""
        return row.id not in self._waiting and row.expires <= self._clock.now()

    async def pending(self, session: str = "") -> list[ApprovalRow]:
        """Open questions, oldest first; of one session, or all."""
        rows = [
            row for row in (await self._records.all()).values() if row.state == "pending" and not self._is_over(row)
        ]
        return sorted((r for r in rows if not session or r.ask.session == session), key=lambda r: (r.created, r.id))

    async def row(self, ident: str) -> ApprovalRow | None:
        """By id or a unique beginning of it."""
        return (await self._find(ident))[0]

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear of every question and every end of one, in this process. Returns the function that ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def watch(self, listener: Listener) -> None:
        """The same for a part of the program that nobody answers through: it does not count as a face."""
        self._watchers.append(listener)

    def _tell(self, what: Literal["requested", "resolved"], row: ApprovalRow) -> None:
        for listener in (*self._listeners, *self._watchers):
            try:
                listener(what, row)
            except Exception:  # border: a broken face must not decide about questions
                log.exception("a listener for approvals failed")

    async def close(self) -> None:
        """Let what is being written reach the disk."""
        await self._tasks.settle()


def digest_question(ask: ApprovalRequest) -> str:
    """What makes two questions the same: everything that decides the effect, and whose session it is. Not the run and
    not the call, which are others after a restart."""
    whose = (ask.kind, ask.agent, ask.session, ask.tool)
    what = (ask.title, ask.command, ask.argv, ask.cwd, ask.host, ask.binary, ask.env, sorted(ask.binding.items()))
    data = msgspec.json.encode([*whose, *what])
    return hashlib.sha256(data).hexdigest()


def _name_tool(ask: ApprovalRequest) -> str:
    return f"{ask.agent} {ask.tool}"


def _short(row: ApprovalRow, ident: str) -> bool:
    return len(ident) >= PREFIX and row.id.startswith(ident.lower())


def _closed(row: ApprovalRow) -> str:
    if row.decision is not None:
        return f"already answered: {row.decision} by {row.by}"
    return f"no longer open: {row.by or row.state}"
