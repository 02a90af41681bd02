"""What becomes of a message whose session is busy. Pure: (state, event) -> (state, effects), one state a session.

A row is in `rows` from the moment it waits on disk until a run has it or its refusal is on disk:

    waiting ──► handed (in the run's mailbox) ──► taken (read by the loop) ──► gone (on disk as part of the run)
       │  ▲───────────┴──────── the run ended ───────┘
       └──► doomed (not to be run; ends as `Verdict` says as soon as the session is free)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from palinurus.core.types.inbound import Inbound, Target
from palinurus.inbox.policy import Mode, Policy

MAX_LINE = 160

INTERRUPTED = "not answered: a newer message interrupted it"
STOPPED = "not answered: stopped"
OVERFLOW = "not answered: more than {cap} messages were waiting"


class Place(msgspec.Struct, frozen=True):
    """Where an answer goes and with whose rights it is made: messages are only put together if both are the same."""

    target: Target
    push: bool
    rights: tuple[Any, ...]


class Verdict(msgspec.Struct, frozen=True):
    outcome: Literal["refused", "aborted"]
    note: str
    tell: bool = False  # the sender hears of it: nothing else will tell them


class Row(msgspec.Struct, frozen=True):
    id: str
    place: Place
    mode: Mode
    until: float = 0.0  # collected messages run after this moment, unless more come
    full: int = 20  # … or when there are so many
    line: str = ""  # what an overflow summary says of it
    state: Literal["waiting", "handed", "taken", "doomed"] = "waiting"
    verdict: Verdict | None = None
    dropped: int = 0  # messages that the run is told of along with this one, once it reads it
    lines: tuple[str, ...] = ()


class Queue(msgspec.Struct, frozen=True):
    """The state of one session. `rows` are in the order of arrival."""

    run: str = ""  # the message whose run is going
    place: Place | None = None
    open: bool = False  # may messages be handed to the run?
    rows: tuple[Row, ...] = ()
    dropped: int = 0  # since the last run that was told of it
    lines: tuple[str, ...] = ()


IDLE = Queue()
TOGETHER = ("collect", "steer")  # modes in which messages that wait make one turn


# events


class Arrived(msgspec.Struct, frozen=True):
    """On disk and not claimed."""

    row: Row
    policy: Policy


class Restored(msgspec.Struct, frozen=True):
    """Found on disk at start. No cap applies: it was accepted, and may have begun."""

    row: Row


class Started(msgspec.Struct, frozen=True):
    """Claimed. `alone`: it has been tried before and is not put together with others."""

    id: str
    place: Place
    alone: bool = False


class Taken(msgspec.Struct, frozen=True):
    ids: tuple[str, ...]


class Absorbed(msgspec.Struct, frozen=True):
    ids: tuple[str, ...]


class Closed(msgspec.Struct, frozen=True):
    """The run looks into its mailbox no more."""


class Ended(msgspec.Struct, frozen=True):
    """The run's claim is settled or given back."""

    id: str


class Stopped(msgspec.Struct, frozen=True):
    """Somebody said stop: the run is being aborted, and nothing that waits shall run. `only`: just these."""

    only: tuple[str, ...] | None = None


class Settled(msgspec.Struct, frozen=True):
    """A doomed message's verdict is on disk."""

    id: str


class Counted(msgspec.Struct, frozen=True):
    """What really waits on disk, after something went wrong."""

    ids: frozenset[str]


Event: TypeAlias = Arrived | Restored | Started | Taken | Absorbed | Closed | Ended | Stopped | Settled | Counted


# effects


class Steer(msgspec.Struct, frozen=True):
    """Put the message that just arrived into the run's mailbox, told of what was dropped."""

    id: str
    dropped: int = 0
    lines: tuple[str, ...] = ()


class Unsteer(msgspec.Struct, frozen=True):
    """Take it back out."""

    id: str


class Abort(msgspec.Struct, frozen=True):
    reason: str


class Begin(msgspec.Struct, frozen=True):
    """Run it, with `extra` messages in the mailbox from the start."""

    extra: tuple[str, ...] = ()
    dropped: int = 0
    lines: tuple[str, ...] = ()


class Settle(msgspec.Struct, frozen=True):
    """The claimed message is not run: this is its end."""

    id: str
    verdict: Verdict


class Sweep(msgspec.Struct, frozen=True):
    """The session is free and its oldest message is doomed: claim and settle it."""


class Hold(msgspec.Struct, frozen=True):
    """Nothing of this session starts before `until`; 0 = it may start."""

    until: float


Effect: TypeAlias = Steer | Unsteer | Abort | Begin | Settle | Sweep | Hold
Stepped: TypeAlias = tuple[Queue, tuple[Effect, ...]]


def row(ident: str, inbound: Inbound, policy: Policy, now: float) -> Row:
    """What the queue needs to know of a message."""
    until = now + policy.debounce if policy.mode == "collect" else 0.0
    return Row(ident, place(inbound), policy.mode, until, policy.cap, brief(inbound.text))


def place(inbound: Inbound) -> Place:
    sender = inbound.sender
    return Place(inbound.target, inbound.push, (sender.owner, sender.allowed, sender.scopes))


def brief(text: str) -> str:
    """One line of at most 160 characters."""
    line = " ".join(text[: MAX_LINE * 4].split())
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 1].rstrip() + "…"


def live(queue: Queue) -> int:
    """Messages that wait and will be run: what the cap counts."""
    return sum(r.state in ("waiting", "handed") for r in queue.rows)


def step(queue: Queue, event: Event) -> Stepped:
    """What changes, and what is to be done about it. An event that no longer fits changes nothing."""
    return _STEPS[type(event)](queue, event)


def _arrived(queue: Queue, event: Arrived) -> Stepped:
    new, policy = event.row, event.policy
    if new.id == queue.run or any(r.id == new.id for r in queue.rows):
        return queue, ()
    same = queue.run != "" and queue.place == new.place
    effects: list[Effect] = []
    if same and new.mode == "interrupt":
        old = [r.id for r in queue.rows if r.place == new.place]
        queue, effects = _doom(queue, old, Verdict("aborted", INTERRUPTED))
        queue = replace(queue, open=False)
        effects.append(Abort("interrupt"))
    queue = replace(queue, rows=(*queue.rows, new))
    queue, dropped = _overflow(queue, new, policy)
    effects += dropped
    if same and queue.open and new.mode == "steer" and _next(queue, new):
        effects.append(Steer(new.id, queue.dropped, queue.lines))
        handed = replace(new, state="handed", dropped=queue.dropped, lines=queue.lines)
        queue = replace(queue, rows=(*queue.rows[:-1], handed), dropped=0, lines=())
    return queue, (*effects, *_ready(queue))


def _restored(queue: Queue, event: Restored) -> Stepped:
    queue = replace(queue, rows=(*queue.rows, event.row))
    return queue, _ready(queue)


def _overflow(queue: Queue, new: Row, policy: Policy) -> tuple[Queue, list[Effect]]:
    """One message too many: the newest goes, or the oldest, of the same chat if there is one."""
    if live(queue) <= policy.cap:
        return queue, []
    note = OVERFLOW.format(cap=policy.cap)
    if policy.drop == "new":
        return _doom(queue, [new.id], Verdict("refused", note, tell=True))
    old = [r for r in queue.rows if r.state in ("waiting", "handed") and r.id != new.id]
    victim = next((r for r in old if r.place == new.place), old[0] if old else new)
    queue, effects = _doom(queue, [victim.id], Verdict("refused", note, tell=policy.drop == "old"))
    if policy.drop == "summarize":
        lines = (*queue.lines, victim.line)[-policy.cap :]
        queue = replace(queue, dropped=queue.dropped + 1, lines=lines)
    return queue, effects


def _started(queue: Queue, event: Started) -> Stepped:
    known = next((r for r in queue.rows if r.id == event.id), None)
    if known is not None and known.verdict is not None:
        return queue, (Settle(known.id, known.verdict),)
    queue = _back(queue, ("handed", "taken"))  # what an ended run had not read waits again
    rest = tuple(r for r in queue.rows if r.id != event.id)
    extra: tuple[str, ...] = ()
    if known is not None and known.mode in TOGETHER and not event.alone:
        extra = tuple(r.id for r in _batch((known, *rest))[1:])
    begun = Queue(event.id, event.place, True, rest)
    return _mark(begun, extra, "handed"), (Begin(extra, queue.dropped, queue.lines),)


def _batch(rows: tuple[Row, ...]) -> list[Row]:
    """The messages at the head that make one turn: of one mode, from one place, with the same rights. Those to be
    steered go along too: who writes later is steered into the run, and would overtake them."""
    batch: list[Row] = []
    for one in rows:
        if one.state == "doomed":
            continue
        if one.mode not in TOGETHER or (batch and (one.mode, one.place) != (batch[0].mode, batch[0].place)):
            break
        batch.append(one)
    return batch


def _taken(queue: Queue, event: Taken) -> Stepped:
    return _mark(queue, event.ids, "taken"), ()


def _absorbed(queue: Queue, event: Absorbed) -> Stepped:
    return replace(queue, rows=tuple(r for r in queue.rows if r.id not in event.ids)), ()


def _closed(queue: Queue, event: Closed) -> Stepped:
    return replace(_back(queue, ("handed",)), open=False), ()


def _ended(queue: Queue, event: Ended) -> Stepped:
    if queue.run != event.id:
        return queue, ()
    queue = _back(replace(queue, run="", place=None, open=False), ("handed", "taken"))
    return queue, _ready(queue)


def _stopped(queue: Queue, event: Stopped) -> Stepped:
    ids = [r.id for r in queue.rows if event.only is None or r.id in event.only]
    queue, effects = _doom(queue, ids, Verdict("aborted", STOPPED))
    if event.only is None:
        queue = replace(queue, open=False, dropped=0, lines=())
    return queue, (*effects, *_ready(queue))


def _settled(queue: Queue, event: Settled) -> Stepped:
    queue = replace(queue, rows=tuple(r for r in queue.rows if r.id != event.id))
    return queue, _ready(queue)


def _counted(queue: Queue, event: Counted) -> Stepped:
    queue = replace(queue, rows=tuple(r for r in queue.rows if r.id in event.ids))
    return queue, _ready(queue)


def _ready(queue: Queue) -> tuple[Effect, ...]:
    """What may happen next in a session without a run."""
    if queue.run or not queue.rows:
        return ()
    if queue.rows[0].state == "doomed":
        return (Sweep(),)
    batch = _batch(queue.rows)
    return (Hold(max(r.until for r in batch) if batch and len(batch) < batch[-1].full else 0.0),)


def _doom(queue: Queue, ids: Iterable[str], verdict: Verdict) -> tuple[Queue, list[Effect]]:
    """Those among `ids` that can still be taken back: not what the loop has read."""
    able = {r.id: r for r in queue.rows if r.state in ("waiting", "handed")}
    chosen = [able[i] for i in ids if i in able]
    names = {r.id for r in chosen}
    queue = _untold(queue, chosen)
    rows = tuple(replace(r, state="doomed", verdict=verdict) if r.id in names else r for r in queue.rows)
    return replace(queue, rows=rows), [Unsteer(r.id) for r in chosen if r.state == "handed"]


def _back(queue: Queue, states: tuple[str, ...]) -> Queue:
    """Messages in these states wait again."""
    queue = _untold(queue, [r for r in queue.rows if r.state in states])
    return _mark(queue, [r.id for r in queue.rows if r.state in states], "waiting")


def _untold(queue: Queue, rows: list[Row]) -> Queue:
    """What the run was to be told along with these is still to be told."""
    names, dropped = {r.id for r in rows}, sum(r.dropped for r in rows)
    if not dropped:
        return queue
    lines = (*(line for r in rows for line in r.lines), *queue.lines)[-max(r.full for r in rows) :]
    kept = tuple(replace(r, dropped=0, lines=()) if r.id in names else r for r in queue.rows)
    return replace(queue, rows=kept, dropped=queue.dropped + dropped, lines=lines)


def _mark(queue: Queue, ids: Iterable[str], state: str) -> Queue:
    names = frozenset(ids)
    if not names:
        return queue
    rows = tuple(replace(r, state=state) if r.id in names and r.state != "doomed" else r for r in queue.rows)
    return replace(queue, rows=rows)


def _next(queue: Queue, new: Row) -> bool:
    """Is it the first that waits to be steered from its place? None overtakes another."""
    waits = (r for r in queue.rows if r.state == "waiting" and r.mode == "steer" and r.place == new.place)
    return next(waits, None) == new


_STEPS: dict[type, Callable[[Queue, Any], Stepped]] = {
    Arrived: _arrived,
    Restored: _restored,
    Started: _started,
    Taken: _taken,
    Absorbed: _absorbed,
    Closed: _closed,
    Ended: _ended,
    Stopped: _stopped,
    Settled: _settled,
    Counted: _counted,
}
