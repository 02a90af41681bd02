"""Whether a heartbeat is worth asking the model. Nothing new means no: an idle day costs nothing. Pure.

A beat is asked for when HEARTBEAT.md changed, a task of it is due, the watched command prints something else, something
was told to the session meanwhile, or the person has written since. After beats that found nothing the next one comes
later, up to eight times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import tzinfo

import msgspec

from palinurus.core.durations import parse_duration
from palinurus.core.text import to_datetime
from palinurus.patterns import compile_late

SLOWEST = 3  # doublings
WATCH_CHANGED = "watch-changed"
_HEAD = compile_late(r"^tasks:\s*$")
_ITEM = compile_late(r"^\s*-\s+(\w+):\s*(.*)$")
_FIELD = compile_late(r"^\s+(\w+):\s*(.*)$")
_COMMENT = compile_late(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_NOTHING = compile_late(r"\s*(?:#{1,6}(?:\s.*)?|[-*+]\s*(?:\[[ xX]?\]\s*)?|```\w*\s*)?")


class HeartbeatHours(msgspec.Struct, frozen=True):
    """When beats are asked for, in minutes of the day: 08:00 to 22:00, or over midnight; 24:00 is the end of the day.
    The same twice: no time at all."""

    start: int = 0
    end: int = 1440

    def open(self, now: int, tz: tzinfo) -> bool:
        """Is it within them?"""
        local = to_datetime(now, tz)
        minute = local.hour * 60 + local.minute
        if self.start <= self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


def parse_minutes(text: str | None, otherwise: int) -> int:
    """Of "08:30"; what cannot be read counts as not said."""
    hour, colon, minute = (text or "").strip().partition(":")
    if not colon or not (hour.isdecimal() and minute.isdecimal()):
        return otherwise
    value = int(hour) * 60 + int(minute)
    return value if value <= 1440 else otherwise


# --- HEARTBEAT.md: what it asks for, and the tasks in it that have intervals of their own --------------------------
#
# tasks:
#   - name: inbox
#     interval: 2h
#     prompt: Look for urgent mail.


class HeartbeatTask(msgspec.Struct, frozen=True):
    """`interval` in seconds."""

    name: str
    interval: float
    prompt: str


class HeartbeatPage(msgspec.Struct, frozen=True):
    """`text` is what stands there besides the tasks; "" if that says nothing."""

    tasks: tuple[HeartbeatTask, ...] = ()
    text: str = ""


def parse_heartbeat_page(text: str) -> HeartbeatPage:
    """A task without a name, an interval or a prompt is left in the text."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if _HEAD.match(line)), len(lines))
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or lines[end][:1] in " \t-"):
        end += 1
    found: list[dict[str, str]] = []
    for line in lines[start + 1 : end]:
        if item := _ITEM.match(line):
            found.append({item[1]: _bare(item[2])})
        elif found and (field := _FIELD.match(line)):
            found[-1][field[1]] = _bare(field[2])
    tasks = [task for each in found if (task := _task(each)) is not None]
    rest = "\n".join(lines[:start] + lines[end:])
    return HeartbeatPage(tuple(tasks), "" if is_blank_page(rest) else rest.strip())


def is_blank_page(text: str) -> bool:
    """Does it ask for nothing? Headings, comments, empty list items and empty code blocks do not."""
    return all(_NOTHING.fullmatch(line) for line in _COMMENT.sub("", text).split("\n"))


def list_due_tasks(tasks: tuple[HeartbeatTask, ...], last: Mapping[str, int], now: int) -> tuple[HeartbeatTask, ...]:
    """Those whose interval is over; `last` says when each was asked about, in milliseconds."""
    return tuple(task for task in tasks if now - last.get(task.name, -(1 << 60)) >= task.interval * 1000)


def _task(fields: dict[str, str]) -> HeartbeatTask | None:
    every = parse_duration(fields.get("interval", ""), "m")
    if not fields.get("name") or not fields.get("prompt") or not every:
        return None
    return HeartbeatTask(fields["name"], every, fields["prompt"])


def _bare(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


# --- one beat --------------------------------------------------------------------------------------------------------


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
