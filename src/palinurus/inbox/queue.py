"""What becomes of a message whose session is busy. Pure: (state, event) -> (state, effects), one state a session.

A row is in `rows` from the moment it waits on disk until a run has it or its refusal is on disk:

    waiting ──► handed (in the run's mailbox) ──► taken (read by the loop) ──► gone (on disk as part of the run)
       │  ▲───────────┴──────── the run ended ───────┘
       └──► doomed (not to be run; ends as `QueueVerdict` says as soon as that is on disk)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from palinurus.core.types.inbound import Target
from palinurus.inbox.policy import Mode, QueuePolicy

INTERRUPTED = "not answered: a newer message interrupted it"
STOPPED = "not answered: stopped"
OVERFLOW = "not answered: more than {cap} messages were waiting"


class QueuePlace(msgspec.Struct, frozen=True):
    """Where an answer goes and with whose rights it is made: messages are only put together if both are the same."""

    target: Target
    push: bool
    rights: tuple[Any, ...]


class QueueVerdict(msgspec.Struct, frozen=True):
    outcome: Literal["refused", "aborted"]
    note: str
    tell: bool = False  # the sender hears of it: nothing else will tell them


class QueueRow(msgspec.Struct, frozen=True):
    id: str
    place: QueuePlace
    mode: Mode
    until: float = 0.0  # collected messages run after this moment, unless more come
    full: int = 20  # … or when there are so many
    line: str = ""  # what an overflow summary says of it
    state: Literal["waiting", "handed", "taken", "doomed"] = "waiting"
    verdict: QueueVerdict | None = None
    dropped: int = 0  # messages that the run is told of along with this one, once it reads it
    lines: tuple[str, ...] = ()


class SessionQueue(msgspec.Struct, frozen=True):
    """The state of one session. `rows` are in the order of arrival."""

    run: str = ""  # the message whose run is going
    place: QueuePlace | None = None
    open: bool = False  # may messages be handed to the run?
    rows: tuple[QueueRow, ...] = ()
    dropped: int = 0  # since the last run that was told of it
    lines: tuple[str, ...] = ()


IDLE = SessionQueue()
TOGETHER = ("collect", "steer")  # modes in which messages that wait make one turn


class ArrivalEvent(msgspec.Struct, frozen=True):
    """On disk and not claimed."""

    row: QueueRow
    policy: QueuePolicy


class RestoreEvent(msgspec.Struct, frozen=True):
    """Found on disk. No cap applies: it was accepted, and may have begun. `first`: before all that wait."""

    row: QueueRow
    first: bool = False


class ClaimEvent(msgspec.Struct, frozen=True):
    """Claimed. `alone`: it has been tried before and is not put together with others."""

    id: str
    place: QueuePlace
    alone: bool = False


class TakeEvent(msgspec.Struct, frozen=True):
    ids: tuple[str, ...]


class AbsorbEvent(msgspec.Struct, frozen=True):
    ids: tuple[str, ...]


class MailboxCloseEvent(msgspec.Struct, frozen=True):
    """The run looks into its mailbox no more."""


class RunEndEvent(msgspec.Struct, frozen=True):
    """The run's claim is settled or given back."""

    id: str


class HurryEvent(msgspec.Struct, frozen=True):
    """A message that was to wait for the end of the run shall be read by it, if it still reads any."""

    id: str


class MoveEvent(msgspec.Struct, frozen=True):
    """They wait in this order on disk now."""

    ids: tuple[str, ...]


class QueueStopEvent(msgspec.Struct, frozen=True):
    """Somebody said stop: the run is being aborted, and nothing that waits shall run. `only`: just these."""

    only: tuple[str, ...] | None = None


class VerdictEvent(msgspec.Struct, frozen=True):
    """A doomed message's verdict is on disk."""

    id: str


class RecountEvent(msgspec.Struct, frozen=True):
    """What really waits on disk, after something went wrong."""

    ids: frozenset[str]


QueueEvent: TypeAlias = (
    ArrivalEvent
    | RestoreEvent
    | ClaimEvent
    | TakeEvent
    | AbsorbEvent
    | MailboxCloseEvent
    | RunEndEvent
    | HurryEvent
    | MoveEvent
    | QueueStopEvent
    | VerdictEvent
    | RecountEvent
)


# effects


class SteerEffect(msgspec.Struct, frozen=True):
    """Put the message that just arrived into the run's mailbox, told of what was dropped."""

    id: str
    dropped: int = 0
    lines: tuple[str, ...] = ()


class UnsteerEffect(msgspec.Struct, frozen=True):
    """Take it back out."""

    id: str


class AbortEffect(msgspec.Struct, frozen=True):
    reason: str


class BeginEffect(msgspec.Struct, frozen=True):
    """Run it, with `extra` messages in the mailbox from the start."""

    extra: tuple[str, ...] = ()
    dropped: int = 0
    lines: tuple[str, ...] = ()


class SettleEffect(msgspec.Struct, frozen=True):
    """The claimed message is not run: this is its end."""

    id: str
    verdict: QueueVerdict


class SweepEffect(msgspec.Struct, frozen=True):
    """Messages are doomed: put their ends on disk."""


class HoldEffect(msgspec.Struct, frozen=True):
    """Nothing of this session starts before `until`; 0 = it may start."""

    until: float


Effect: TypeAlias = SteerEffect | UnsteerEffect | AbortEffect | BeginEffect | SettleEffect | SweepEffect | HoldEffect
Stepped: TypeAlias = tuple[SessionQueue, tuple[Effect, ...]]


def count_live(queue: SessionQueue) -> int:
    """Messages that wait and will be run: what the cap counts."""
    return sum(r.state in ("waiting", "handed") for r in queue.rows)


def step_queue(queue: SessionQueue, event: QueueEvent) -> Stepped:
    """What changes, and what is to be done about it. An event that no longer fits changes nothing."""
    return _STEPS[type(event)](queue, event)


def _arrived(queue: SessionQueue, event: ArrivalEvent) -> Stepped:
    new, policy = event.row, event.policy
    if new.id == queue.run or any(r.id == new.id for r in queue.rows):
        return queue, ()
    same = queue.run != "" and queue.place == new.place
    effects: list[Effect] = []
    if same and new.mode == "interrupt":
        old = [r.id for r in queue.rows if r.place == new.place]
        queue, effects = _doom(queue, old, QueueVerdict("aborted", INTERRUPTED))
        queue = replace(queue, open=False)
        effects.append(AbortEffect("interrupt"))
    queue = replace(queue, rows=(*queue.rows, new))
    queue, dropped = _overflow(queue, new, policy)
    effects += dropped
    if same and queue.open and new.mode == "steer" and _next(queue, new):
        queue, handed = _hand(queue, new)
        effects += handed
    return queue, (*effects, *_ready(queue))


def _hand(queue: SessionQueue, row: QueueRow) -> Stepped:
    """It goes into the run's mailbox, with what the run is to be told of."""
    handed = replace(row, mode="steer", state="handed", dropped=queue.dropped, lines=queue.lines)
    rows = tuple(handed if r.id == row.id else r for r in queue.rows)
    return replace(queue, rows=rows, dropped=0, lines=()), (SteerEffect(row.id, queue.dropped, queue.lines),)


def _hurried(queue: SessionQueue, event: HurryEvent) -> Stepped:
    able = (r for r in queue.rows if queue.open and (r.id, r.state, r.place) == (event.id, "waiting", queue.place))
    return _hand(queue, row) if (row := next(able, None)) is not None else (queue, ())


def _moved(queue: SessionQueue, event: MoveEvent) -> Stepped:
    known = {r.id: r for r in queue.rows}
    order = iter([known[ident] for ident in event.ids if ident in known])
    queue = replace(queue, rows=tuple(next(order) if r.id in event.ids else r for r in queue.rows))
    return queue, _ready(queue)


def _restored(queue: SessionQueue, event: RestoreEvent) -> Stepped:
    if event.row.id != queue.run:  # else it has begun since
        queue = replace(queue, rows=(event.row, *queue.rows) if event.first else (*queue.rows, event.row))
    return queue, _ready(queue)


def _overflow(queue: SessionQueue, new: QueueRow, policy: QueuePolicy) -> tuple[SessionQueue, list[Effect]]:
    """One message too many: the newest goes, or the oldest, of the same chat if there is one."""
    if count_live(queue) <= policy.cap:
        return queue, []
    note = OVERFLOW.format(cap=policy.cap)
    if policy.drop == "new":
        return _doom(queue, [new.id], QueueVerdict("refused", note, tell=True))
    old = [r for r in queue.rows if r.state in ("waiting", "handed") and r.id != new.id]
    victim = next((r for r in old if r.place == new.place), old[0] if old else new)
    queue, effects = _doom(queue, [victim.id], QueueVerdict("refused", note, tell=policy.drop == "old"))
    if policy.drop == "summarize":
        lines = (*queue.lines, victim.line)[-policy.cap :]
        queue = replace(queue, dropped=queue.dropped + 1, lines=lines)
    return queue, effects


def _started(queue: SessionQueue, event: ClaimEvent) -> Stepped:
    known = next((r for r in queue.rows if r.id == event.id), None)
    if known is not None and known.verdict is not None:
        return queue, (SettleEffect(known.id, known.verdict),)
    queue = _back(queue, ("handed", "taken"))  # what an ended run had not read waits again
    rest = tuple(r for r in queue.rows if r.id != event.id)
    extra: tuple[str, ...] = ()
    if known is not None and known.mode in TOGETHER and not event.alone:
        extra = tuple(r.id for r in _batch((known, *rest))[1:])
    begun = SessionQueue(event.id, event.place, True, rest)
    return _mark(begun, extra, "handed"), (BeginEffect(extra, queue.dropped, queue.lines),)


def _batch(rows: tuple[QueueRow, ...]) -> list[QueueRow]:
    """The messages at the head that make one turn: of one mode, from one place, with the same rights. Those to be
    steered go along too: who writes later is steered into the run, and would overtake them."""
    batch: list[QueueRow] = []
    for one in rows:
        if one.state == "doomed":
            continue
        if one.mode not in TOGETHER or (batch and (one.mode, one.place) != (batch[0].mode, batch[0].place)):
            break
        batch.append(one)
    return batch


def _taken(queue: SessionQueue, event: TakeEvent) -> Stepped:
    return _mark(queue, event.ids, "taken"), ()


def _absorbed(queue: SessionQueue, event: AbsorbEvent) -> Stepped:
    return replace(queue, rows=tuple(r for r in queue.rows if r.id not in event.ids)), ()


def _closed(queue: SessionQueue, event: MailboxCloseEvent) -> Stepped:
    return replace(_back(queue, ("handed",)), open=False), ()


def _ended(queue: SessionQueue, event: RunEndEvent) -> Stepped:
    if queue.run != event.id:
        return queue, ()
    queue = _back(replace(queue, run="", place=None, open=False), ("handed", "taken"))
    return queue, _ready(queue)


def _stopped(queue: SessionQueue, event: QueueStopEvent) -> Stepped:
    ids = [r.id for r in queue.rows if event.only is None or r.id in event.only]
    queue, effects = _doom(queue, ids, QueueVerdict("aborted", STOPPED))
    if event.only is None:
        queue = replace(queue, open=False, dropped=0, lines=())
    return queue, tuple(effects)  # whoever stops it puts that on disk


def _settled(queue: SessionQueue, event: VerdictEvent) -> Stepped:
    queue = replace(queue, rows=tuple(r for r in queue.rows if r.id != event.id))
    return queue, _ready(queue)


def _counted(queue: SessionQueue, event: RecountEvent) -> Stepped:
    queue = replace(queue, rows=tuple(r for r in queue.rows if r.id in event.ids))
    return queue, _ready(queue)


def _ready(queue: SessionQueue) -> tuple[Effect, ...]:
    """What may happen next in a session: doomed messages end, and without a run one begins."""
    swept = (SweepEffect(),) if any(r.state == "doomed" for r in queue.rows) else ()
    if queue.run or not queue.rows or queue.rows[0].state == "doomed":
        return swept
    batch = _batch(queue.rows)
    return (*swept, HoldEffect(max(r.until for r in batch) if batch and len(batch) < batch[-1].full else 0.0))


def _doom(queue: SessionQueue, ids: Iterable[str], verdict: QueueVerdict) -> tuple[SessionQueue, list[Effect]]:
    """Those among `ids` that can still be taken back: not what the loop has read."""
    able = {r.id: r for r in queue.rows if r.state in ("waiting", "handed")}
    chosen = [able[i] for i in ids if i in able]
    names = {r.id for r in chosen}
    queue = _untold(queue, chosen)
    rows = tuple(replace(r, state="doomed", verdict=verdict) if r.id in names else r for r in queue.rows)
    return replace(queue, rows=rows), [UnsteerEffect(r.id) for r in chosen if r.state == "handed"]


def _back(queue: SessionQueue, states: tuple[str, ...]) -> SessionQueue:
    """Messages in these states wait again."""
    queue = _untold(queue, [r for r in queue.rows if r.state in states])
    return _mark(queue, [r.id for r in queue.rows if r.state in states], "waiting")


def _untold(queue: SessionQueue, rows: list[QueueRow]) -> SessionQueue:
    """What the run was to be told along with these is still to be told."""
    names, dropped = {r.id for r in rows}, sum(r.dropped for r in rows)
    if not dropped:
        return queue
    lines = (*(line for r in rows for line in r.lines), *queue.lines)[-max(r.full for r in rows) :]
    kept = tuple(replace(r, dropped=0, lines=()) if r.id in names else r for r in queue.rows)
    return replace(queue, rows=kept, dropped=queue.dropped + dropped, lines=lines)


def _mark(queue: SessionQueue, ids: Iterable[str], state: str) -> SessionQueue:
    names = frozenset(ids)
    if not names:
        return queue
    rows = tuple(replace(r, state=state) if r.id in names and r.state != "doomed" else r for r in queue.rows)
    return replace(queue, rows=rows)


def _next(queue: SessionQueue, new: QueueRow) -> bool:
    """Is it the first that waits to be steered from its place? None overtakes another."""
    waits = (r for r in queue.rows if r.state == "waiting" and r.mode == "steer" and r.place == new.place)
    return next(waits, None) == new


_STEPS: dict[type, Callable[[SessionQueue, Any], Stepped]] = {
    ArrivalEvent: _arrived,
    RestoreEvent: _restored,
    ClaimEvent: _started,
    TakeEvent: _taken,
    AbsorbEvent: _absorbed,
    MailboxCloseEvent: _closed,
    RunEndEvent: _ended,
    HurryEvent: _hurried,
    MoveEvent: _moved,
    QueueStopEvent: _stopped,
    VerdictEvent: _settled,
    RecountEvent: _counted,
}
