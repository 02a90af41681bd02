"""Whether a heartbeat is worth asking the model. Nothing new means no: an idle day costs nothing. Pure.

A beat is asked for when HEARTBEAT.md changed, a task of it is due, the watched command prints something else, something
was told to the session meanwhile, or the person has written since. After beats that found nothing the next one comes
later, up to eight times.
"""

from __future__ import annotations

import msgspec

from palinurus.core.schedule.tasks import HeartbeatPage, HeartbeatTask, list_due_tasks

SLOWEST = 3  # doublings
WATCH_CHANGED = "watch-changed"


class HeartbeatState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is remembered between two beats of an agent. Times in milliseconds."""

    last: int = 0  # when the last one ran, or when we began to count
    digest: str = ""  # of what HEARTBEAT.md said then; "": it was never asked about
    tasks: dict[str, int] = {}  # name -> when it was last asked about
    watch: str = ""  # digest of what the watched command had printed; "": it never ran
    quiet: int = 0  # acknowledgements in a row
    said: str = ""  # the last alert
    said_at: int = 0
    stopped: str = ""  # why there are no more
    item: str = ""  # the inbox id of the one that runs
    cost: float = 0.0  # of all beats so far, in dollars
    count: int = 0


class HeartbeatObservation(msgspec.Struct, frozen=True):
    """What is there now."""

    now: int
    every: float  # seconds
    page: HeartbeatPage
    digest: str  # "" for a page that says nothing
    events: bool = False  # something waits to be told to the session
    talked: int = 0  # when a person last wrote there
    watch: str = ""  # digest of what the watched command prints; "": not known


class HeartbeatVerdict(msgspec.Struct, frozen=True):
    """`why` names the reason either way, as clients of OpenClaw know them."""

    beat: bool
    why: str
    tasks: tuple[HeartbeatTask, ...] = ()


def judge_heartbeat(before: HeartbeatState, look: HeartbeatObservation) -> HeartbeatVerdict:
    """Ask now, or not."""
    if before.stopped:
        return HeartbeatVerdict(False, "stopped")
    tasks = list_due_tasks(look.page.tasks, before.tasks, look.now)
    rest = look.every * 1000
    if look.digest and before.digest and look.digest != before.digest:
        return HeartbeatVerdict(True, "file-changed", tasks)
    if look.now - before.last < rest and not (tasks and before.digest):
        return HeartbeatVerdict(False, "not-due")
    if tasks:
        return HeartbeatVerdict(True, "tasks-due", tasks)
    if look.events:
        return HeartbeatVerdict(True, "events")
    if look.watch and before.watch and look.watch != before.watch:
        return HeartbeatVerdict(True, WATCH_CHANGED)
    if look.now - before.last < rest * 2 ** min(before.quiet, SLOWEST):
        return HeartbeatVerdict(False, "idle")
    if look.digest and look.page.text and (not before.digest or look.talked > before.last):
        return HeartbeatVerdict(True, "activity" if before.digest else "first")
    if not look.page.text:
        return HeartbeatVerdict(False, "no-tasks-due" if look.page.tasks else "empty-heartbeat-file")
    return HeartbeatVerdict(False, "unchanged")
