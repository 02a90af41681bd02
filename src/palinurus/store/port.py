"""The store as everyone above sees it. SQLite carries one machine; a fleet gets the same port on PostgreSQL.

Every coroutine that changes something returns only after the change is on disk. Changes are applied in the
order in which they were called. The life of a message:

    accept ──► queued ──claim──► running ──settle──► done (answered | silent | failed | refused)
                 ▲  ├──append(absorb)──► absorbed         │
                 │  └──dismiss, stop──► done (aborted…)   └► dead (settle with outcome "dead")
                 └──yield_back, requeue──── running ──dismiss, stop──► running, marked: its end is decided

Whoever opens a state is a node. Several may share one, each through a handle of its own (today: in tests).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from palinurus.errors import StateError
from palinurus.store.shared import SharedStore
from palinurus.taping import draw_token

TurnOutcome: TypeAlias = Literal["answered", "silent", "failed", "refused", "aborted", "dead"]
ItemState: TypeAlias = Literal["queued", "running", "absorbed", "done"]

ANY_RECORD = b"\x00any"  # `Store.put_record`: whatever the record holds
_ABC = "0123456789abcdefghjkmnpqrstvwxyz"


def make_id(now_ms: int) -> str:
    """26 characters that sort by time: 10 of milliseconds, 16 of chance (Crockford base 32, as ULID)."""
    value = (now_ms << 80) | int(draw_token(10), 16)
    return "".join([_ABC[(value >> shift) & 31] for shift in range(125, -5, -5)])


class StaleClaim(StateError):
    """The claim, message or reply is no longer in the state this change needs. Nothing was changed."""


class SessionFull(StateError):
    """As many messages of the session wait as may. Nothing was changed."""


class SlotTaken(StateError):
    """That fire of a job was claimed before, by another message or none. Nothing was changed."""


class InboxItem(msgspec.Struct, frozen=True):
    """A message to accept. `dedupe` identifies it for ever: (channel, account, event id) or an idempotency key."""

    id: str
    dedupe: str
    session: str  # session key: the lane; one run at a time
    lane: str  # the pool of slots: main, subagent, cron
    body: bytes  # the encoded Inbound
    at: int
    slot: tuple[str, int] | None = None  # (job, due): it is that fire, claimed in the same step


class Acceptance(msgspec.Struct, frozen=True):
    """`id` is the id of the row on disk: for a duplicate, that of the first one."""

    id: str
    duplicate: bool
    state: ItemState
    claim: RunClaim | None = None


class RunClaim(msgspec.Struct, frozen=True):
    """The right to run one message. `attempts` counts this one; `fence` guards writes in a fleet."""

    id: str
    session: str
    lane: str
    body: bytes
    at: int
    attempts: int
    fence: int = 0


class TranscriptLine(msgspec.Struct, frozen=True):
    """One transcript line: durable in the journal first, then appended to the file `path` (relative to home)."""

    path: str
    id: str  # entry id, unique in the file
    data: bytes  # without the newline


class OutboxRow(msgspec.Struct, frozen=True):
    """A reply part in the outbox. `seq`, given by the store, orders the parts of a target; `data` is the Reply."""

    id: str
    item: str  # the inbox id it answers
    channel: str
    target: str  # order is kept per (channel, target)
    data: bytes
    at: int
    attempts: int = 0
    state: str = "pending"  # pending, sending, sent, failed, cancelled
    receipt: str = ""
    error: str = ""
    due: int = 0
    seq: int = 0


class UsageRow(msgspec.Struct, frozen=True):
    """One line of the usage ledger: one model call. `cost` in US dollars, None when unpriced."""

    item: str
    run: str
    session: str
    agent: str
    provider: str
    model: str
    at: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float | None = None
    ms: int = 0


class SessionRow(msgspec.Struct, frozen=True):
    """A session. `data` is the encoded record (`sessions/record.py`); the rest is there to be searched."""

    key: str
    agent: str
    session_id: str
    updated: int
    data: bytes


class StoreRecord(msgspec.Struct, frozen=True):
    """A small durable record: an approval, a device, a job. `kind` names the part, `at` is when it was last written."""

    kind: str
    key: str
    data: bytes
    at: int


class TraceStep(msgspec.Struct, frozen=True):
    """One line of a message's trace, kept in the order it happened."""

    item: str
    at: int
    what: str  # accepted, claimed, tool, result, settled, sending, sent, …
    detail: str = ""


class Settlement(msgspec.Struct, frozen=True):
    """All that ends a turn, applied in one transaction."""

    outcome: TurnOutcome
    note: str = ""  # reply text or reason, short; what a client with the same idempotency key is told
    lines: tuple[TranscriptLine, ...] = ()
    replies: tuple[OutboxRow, ...] = ()
    session: SessionRow | None = None  # the whole row, as it is to be
    touch: SessionRow | None = None  # fields to merge into the row, if it still is that session (JSON merge patch)
    spent: tuple[UsageRow, ...] = ()
    steps: tuple[TraceStep, ...] = ()  # before its end


class Dismissal(msgspec.Struct, frozen=True):
    """The end of a message that nobody is to answer: stopped, interrupted, one too many."""

    id: str
    outcome: TurnOutcome
    note: str
    replies: tuple[OutboxRow, ...] = ()  # what its sender is told, if it waits
    silent: bool = False  # if it runs: what it has said and is not sent yet is never sent


class DismissedMessages(msgspec.Struct, frozen=True):
    """Those that waited are done; those that run are marked."""

    ended: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()


class InboxRow(msgspec.Struct, frozen=True):
    """A message as it stands. One that is running and has an outcome was dismissed: it will end so."""

    id: str
    dedupe: str
    session: str
    lane: str
    body: bytes
    at: int
    state: ItemState
    outcome: TurnOutcome | None
    note: str
    attempts: int
    absorbed_by: str = ""
    claimed: int = 0
    settled: int = 0


class Store(SharedStore, Protocol):
    """The port. One conformance suite (`palinurus.testing.conformance.store`) runs on every implementation."""

    async def accept(self, item: InboxItem, *, claim: bool, limit: int | None = None, hold: float = 0.0) -> Acceptance:
        """Put a message on disk. A known `dedupe` changes nothing and returns the first row's id and state.

        With `claim=True` the row is claimed in the same step if nothing of its session is queued or running; if it
        waits, nothing of its session is claimed for `hold` seconds. Raises, with nothing changed: SessionFull if
        `limit` messages of its session wait, SlotTaken; DiskFull, StateBroken.
        """
        ...

    async def claim(self, lane: str, most: int = 1, *, serves: Sequence[str] | None = None) -> list[RunClaim]:
        """Take up to `most` queued messages of `lane`, oldest first: of each session that has none running and is not
        held the first that waits, and no other. `serves`: beginnings of the session keys this node runs; None: all.

        One of the lane `control`, `control…:KEY`, is about what runs in KEY: while another node runs that, only it may
        take it, unless its name begins with `control/stop`."""
        ...

    async def hold(self, session: str, seconds: float) -> None:
        """Have nothing of the session claimed for so long, by any node; 0: it may be claimed."""
        ...

    async def list_waiting(self, session: str) -> list[InboxRow]:
        """Queued messages of a session, in the order in which they are claimed: oldest first, unless rearranged."""
        ...

    async def rearrange(self, session: str, ids: Sequence[str]) -> list[str]:
        """Those of `ids` that wait in the session take each other's places, in this order. Returns all that wait."""
        ...

    async def append(
        self,
        claim: RunClaim,
        lines: Sequence[TranscriptLine],
        *,
        absorb: Sequence[str] = (),
        steps: Sequence[TraceStep] = (),
        spent: Sequence[UsageRow] = (),
    ) -> None:
        """Make transcript lines durable, with what they cost; messages in `absorb` become part of this run in the
        same step.

        All or nothing. Raises StaleClaim if the claim has ended or one of `absorb` is no longer queued.
        """
        ...

    async def queue_replies(self, claim: RunClaim, replies: Sequence[OutboxRow]) -> None:
        """Queue replies while the run is going. One whose id is already known is left as it is; none is queued any more
        once the message was dismissed."""
        ...

    async def post_replies(self, replies: Sequence[OutboxRow]) -> None:
        """Queue replies that no run gives: a pairing code, a notice. One whose id is already known is left as it is."""
        ...

    async def reply(self, ident: str) -> OutboxRow | None:
        """A reply as it stands now; its receipt once it is sent."""
        ...

    async def settle(self, claim: RunClaim, end: Settlement) -> None:
        """End the turn: outcome, last lines, reply rows, session row, ledger, all or nothing. Once per claim.

        Raises StaleClaim, with nothing changed, if the claim has been settled, given back or taken over.
        """
        ...

    async def yield_back(self, claim: RunClaim) -> None:
        """Put an unfinished message back in its place; this attempt does not count. Raises StaleClaim."""
        ...

    async def dismiss(self, ends: Sequence[Dismissal]) -> DismissedMessages:
        """Messages that shall not be answered, in one step.

        One that runs is marked: whatever its run says at the end, and whatever happens to this process, it ends with
        this outcome. One that is done stays as it is.
        """
        ...

    async def stop(
        self,
        session: str,
        note: str,
        *,
        waiting: str | None = None,
        only: Sequence[str] | None = None,
        silent: bool = False,
    ) -> DismissedMessages:
        """Stop what a session does, whichever node does it: what runs is marked, as with `dismiss`, with `note`; what
        waits ends as aborted with the note `waiting` (None: it goes on waiting). `only`: just these messages."""
        ...

    async def list_running(self) -> list[InboxRow]:
        """Messages that this node has claimed, oldest first; at start, what its earlier life left."""
        ...

    async def requeue(self, ids: Sequence[str]) -> list[InboxRow]:
        """Running messages that nobody runs wait again (one that was dismissed ends). Returns those that wait."""
        ...

    async def recover(self) -> list[InboxRow]:
        """At start, before anything else: rows this node left running are queued again (dismissed ones end), journal
        lines missing in transcript files are written. Returns every row that waits, oldest first."""
        ...

    async def item(self, ident: str) -> InboxRow | None:
        """By id, or by a prefix of it that is unique."""
        ...

    async def find(self, dedupe: str) -> InboxRow | None:
        """By what identifies it."""
        ...

    async def list_due_replies(self, channel: str, now: int) -> list[OutboxRow]:
        """The next part of each target that is due, oldest first: parts of one target never overtake each other."""
        ...

    async def mark_sending(self, ident: str, now: int, *, attempts: int | None = None) -> OutboxRow:
        """About to send: counts the attempt, state `sending`. A row found in this state later is uncertain.

        Raises StaleClaim if the row is not waiting to be sent (as do `delivered` and `undelivered`), or was not tried
        `attempts` times before: somebody else is sending it.
        """
        ...

    async def mark_delivered(self, ident: str, receipt: str, now: int) -> None: ...

    async def mark_undelivered(self, ident: str, error: str, due: int | None) -> None:
        """Try again at `due`, or never (None: state failed)."""
        ...

    async def session(self, key: str) -> SessionRow | None: ...

    async def sessions(self, agent: str | None = None) -> list[SessionRow]:
        """All, newest first."""
        ...

    async def save_session(self, row: SessionRow, *, expect: bytes | None = ANY_RECORD) -> bool:
        """Write the whole row. With `expect` only if that is its data now (None: there is no such session); False, with
        nothing changed, if it is not."""
        ...

    async def touch(self, row: SessionRow) -> None:
        """Merge the fields of `row.data` into the session's row (JSON merge patch), if it still is that session. One
        that was deleted does not come back; `updated` never goes back."""
        ...

    async def write(self, lines: Sequence[TranscriptLine], *, idle: str = "") -> None:
        """Make transcript lines durable that belong to no run. Raises StaleClaim if the session `idle` has one."""
        ...

    async def read_tail(self, path: str, after: int) -> bytes:
        """The lines of a transcript beyond its first `after` bytes, with all that is committed; empty if it has no
        more: whoever has read that much has read all. Raises StateUnwritable."""
        ...

    async def complete_file(self, path: str) -> None:
        """Have every line of the file `path` in it and on disk, before it is renamed. Raises StateUnwritable."""
        ...

    async def drop_session(self, key: str, path: str = "") -> None:
        """Forget the row, and the lines that wait for its file `path`: a transcript that went does not return."""
        ...

    async def prune(self, before: int) -> int:
        """Forget some of what ended before `before`, its `dedupe` too. Returns how many rows: 0 when none is left."""
        ...

    async def put_record(self, kind: str, key: str, data: bytes | None, *, expect: bytes | None = ANY_RECORD) -> bool:
        """Write a record (None: remove it). With `expect` only if that is what it holds now (None: it does not exist).

        False, with nothing changed, if it holds something else: of several who change a record, one wins.
        """
        ...

    async def get_record(self, kind: str, key: str) -> StoreRecord | None: ...

    async def list_records(self, kind: str) -> list[StoreRecord]:
        """Every record of a kind, by key."""
        ...

    async def claim_slot(self, job: str, due: int) -> bool:
        """Claim the fire (job, due). False if it was claimed before: one fire per slot."""
        ...

    async def list_usage(self, since: int, session: str | None = None) -> list[UsageRow]: ...

    async def trace(self, ident: str) -> list[TraceStep]:
        """Everything recorded about one message, oldest first, its outbox rows included."""
        ...

    async def close(self) -> None:
        """Give back what was granted, flush, sync the transcript files, release the lock."""
        ...
