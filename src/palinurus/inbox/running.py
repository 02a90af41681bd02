"""A run in flight: what the dispatcher holds of it, and who watches it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from palinurus.abort import Abort
from palinurus.agent.mailbox import Mailbox
from palinurus.agent.settle import settle_until_stored, to_outgoing_rows
from palinurus.agent.turn import ClaimedMessage
from palinurus.clock import Clock
from palinurus.core.types.events import AgentEnd, RunEndReason, RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.model import FailureKind, ModelFailure
from palinurus.core.types.outbound import Reply
from palinurus.core.types.usage import TokenUsage
from palinurus.inbox.feed import RunFeeds
from palinurus.inbox.lanes import SessionQueues
from palinurus.inbox.message import InboxMessage, MessageReader
from palinurus.inbox.policy import QueuePolicy
from palinurus.inbox.queue import BeginEffect, QueuePlace, QueueRow
from palinurus.store.port import Dismissal, InboxRow, RunClaim, Settlement, Store, TurnOutcome

log = logging.getLogger(__name__)

MAX_LINE = 160


def make_row(ident: str, inbound: Inbound, policy: QueuePolicy, now: float) -> QueueRow:
    """What the queue needs to know of a message."""
    until = now + policy.hold if policy.hold else 0.0
    return QueueRow(ident, get_place(inbound), policy.mode, until, full=policy.cap, line=shorten_line(inbound.text))


def get_place(inbound: Inbound) -> QueuePlace:
    sender = inbound.sender
    return QueuePlace(inbound.target, inbound.push, (sender.owner, sender.allowed, sender.scopes, inbound.outsider))


def shorten_line(text: str) -> str:
    """One line of at most 160 characters."""
    line = " ".join(text[: MAX_LINE * 4].split())
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 1].rstrip() + "…"


# The words around messages that are put together, or were dropped. Pure.

TITLE = "[Queued messages while agent was busy]"
OVERFLOW = "[Queue overflow] Dropped {count} message(s) due to cap."


def tell_overflow(count: int, lines: tuple[str, ...]) -> str:
    """What the model is told of messages that were dropped; "" if there are none."""
    return "\n".join((OVERFLOW.format(count=count), *(f"- {line}" for line in lines))) if count else ""


def prepend_note(inbound: Inbound, note: str) -> Inbound:
    """The message with a note before its text."""
    return msgspec.structs.replace(inbound, text=f"{note}\n\n{inbound.text}") if note else inbound


def number_first(inbound: Inbound, note: str = "") -> Inbound:
    """The first of several messages that make one turn."""
    head = f"{TITLE}\n\n{note}\n\n" if note else f"{TITLE}\n\n"
    return msgspec.structs.replace(inbound, text=head + _block(inbound, 1), signed=True)


def number_further(inbound: Inbound, number: int) -> Inbound:
    """The others, numbered from 2."""
    return msgspec.structs.replace(inbound, text=_block(inbound, number), signed=True)


def join_messages(run: ActiveRun, extras: Sequence[tuple[str, Inbound, bool]], now: int) -> ClaimedMessage:
    """What a run begins with: its own message, and in its mailbox the others: (id, message, is it to be numbered?)."""
    number, further = 1, []
    for ident, extra, collected in extras:
        if collected:
            number += 1
            extra = number_further(extra, number)
        further.append((extra.message(now), ident))
    run.mailbox.begin(further)
    message, note = run.message, tell_overflow(run.begin.dropped, run.begin.lines)
    said = number_first(message.said, note) if number > 1 else prepend_note(message.said, note)
    return ClaimedMessage(run.claim, said, message.route, message.inline, typed=message.inbound.text)


def join_waiting(
    run: ActiveRun, rows: Sequence[InboxRow], book: SessionQueues, reader: MessageReader, *, now: int
) -> ClaimedMessage:
    """As `join_messages`, of the `rows` that wait: what runs together with the first one."""
    known = {row.id: book.row(run.claim.session, row.id) for row in rows if row.id in run.begin.extra}
    handed = [(row, state) for row in rows if (state := known.get(row.id)) is not None and state.state == "handed"]
    extras = [(row.id, reader.reopen(row).said, state.mode == "collect") for row, state in handed]
    return join_messages(run, extras, now)


def _block(inbound: Inbound, number: int) -> str:
    who = inbound.sender.name or inbound.sender.id if inbound.kind != "direct" else ""
    return f"---\nQueued #{number}{f' (from {who})' if who else ''}\n{inbound.text}"


# The end of a claim that no turn has ended: dropped, stopped before it began, or its turn broke.
#
# Its outcome is on disk when `end` returns; who asked is told through the outbox if `tell` says so.

ReplyListener = Callable[[tuple[Reply, ...]], None]


class ClaimFinisher:
    def __init__(self, store: Store, clock: Clock, replied: ReplyListener) -> None:
        self.store = store
        self.clock = clock
        self.replied = replied
        self.stopped = False  # no more tries: the next start finds the claim as it is

    async def end(
        self, claim: RunClaim, inbound: Inbound, outcome: TurnOutcome, note: str, *, tell: bool
    ) -> AgentEnd | None:
        """Settle; tries until it is on disk. None if the claim had ended already, or the gateway stops first."""
        now = self.clock.now()
        replies = make_notice(claim.id, inbound, note) if tell else ()
        settlement = Settlement(outcome, note, (), to_outgoing_rows(replies, claim.id, now))
        if self.stopped or not await settle_until_stored(
            claim, lambda: self.store.settle(claim, settlement), self.clock, lambda: self.stopped
        ):
            return None
        if replies:
            self.replied(replies)
        return make_refused_end(outcome, note, now)


def make_notice(ident: str, inbound: Inbound, note: str) -> tuple[Reply, ...]:
    """What the sender of a message is told that gets no answer."""
    text = f"⚠️ {note[:1].upper()}{note[1:]}."
    return (Reply(inbound.target, text, f"{ident}.end", "notice", reply_to=inbound.reply_to),) if inbound.push else ()


def make_refused_end(outcome: TurnOutcome, note: str, now: int) -> AgentEnd:
    """The last event of a message that got no run."""
    kind: FailureKind = "aborted" if outcome == "aborted" else "refused"
    end: RunEndReason = "aborted" if outcome == "aborted" else "error"
    return AgentEnd((), end, TokenUsage(), ModelFailure(kind, note), ended=now)


class ActiveRun:
    """A session's run. `over` once its lane is free again; `late` counts the times it was told that it must end,
    which nobody tells one that is `ending`: those who wait would be woken before its end is on disk, and never again.

    `mark` is the end that somebody who stopped it wants on disk; `marked` once it is there, or the run ended first.
    """

    __slots__ = (
        "abort", "absorbed", "begin", "claim", "ending", "late", "mailbox", "mark", "marked", "message", "over", "task",
        "timer",
    )  # fmt: skip

    def __init__(self, claim: RunClaim, message: InboxMessage, begin: BeginEffect, mailbox: Mailbox) -> None:
        self.claim = claim
        self.message = message
        self.begin = begin
        self.mailbox = mailbox
        self.abort = Abort()
        self.absorbed: set[str] = set()
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.late = 0
        self.ending = False
        self.over = False
        self.mark: Dismissal | None = None
        self.marked = False


class RunAudience:
    """The audience of one run: the sinks of its message, and of those that were steered into it."""

    def __init__(self, feeds: RunFeeds, run: ActiveRun, absorbed: Callable[[ActiveRun, tuple[str, ...]], None]) -> None:
        self._feeds = feeds
        self._run = run
        self._tell = absorbed

    def show(self, event: RunEvent) -> None:
        self._feeds.show(self._run.claim.id, event)

    def absorbed(self, items: tuple[str, ...]) -> None:
        self._tell(self._run, items)


class StrayRuns:
    """Rows that count as running though nobody runs them, at two looks in a row, wait again."""

    def __init__(self, store: Store, ours: Callable[[], set[str]]) -> None:
        self._store = store
        self._ours = ours
        self._seen: frozenset[str] = frozenset()

    async def give_back(self) -> list[InboxRow]:
        """Look. Returns those that wait now. Raises StateError kinds."""
        found = frozenset(row.id for row in await self._store.list_running()) - self._ours()
        again, self._seen = found & self._seen, found
        if not again:
            return []
        log.error("messages that count as running, but nobody runs them: %s", ", ".join(sorted(again)))
        return await self._store.requeue(tuple(again))


def keep_deadline(run: ActiveRun, seconds: float, grace: float, give_up: Callable[[ActiveRun], None]) -> None:
    """A run that should have stopped itself `grace` after its time is cancelled; if that does not help, given up."""

    def late() -> None:
        if run.ending:
            return
        run.late += 1
        if run.over:
            return
        assert run.task is not None, run.claim.id  # it was begun before
        log.error("message %s: the run is still going after its deadline", run.claim.id)
        run.task.cancel()
        if run.late > 1:
            give_up(run)
        else:
            run.timer = asyncio.get_running_loop().call_later(grace, late)

    run.timer = asyncio.get_running_loop().call_later(seconds + grace, late)
