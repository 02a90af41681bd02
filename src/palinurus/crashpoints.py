"""Named crash points in the durable steps. Off unless a test arms one; then the process dies there.

`PALINURUS_CRASH=name:k` kills the process with SIGKILL semantics (no cleanup, exit 137) at the k-th pass
of `pass_crashpoint(name)`. `app` reads the variable once at start; nothing happens on import.
"""

from __future__ import annotations

import os

# Every point that exists. `pass_crashpoint` with a name that is not here is a bug the tests find.
NAMES: tuple[str, ...] = (
    "accept.before",  # the inbox row is about to be committed
    "accept.after",  # committed, the sender has not been told
    "accept.acked",  # the sender has been told
    "claim.after",  # a lane has taken the message
    "prepare.after",  # the plan is made, the model has not been asked
    "model.first",  # the first piece of the answer has arrived
    "model.middle",  # some pieces have been shown
    "model.done",  # the answer is complete, nothing of it is on disk
    "intent.before",  # tool calls known, not on disk
    "intent.after",  # tool calls on disk, no tool started
    "tool.during",  # a tool has started
    "tool.after",  # a tool has ended, its result is not on disk
    "result.after",  # the results are on disk
    "dismiss.before",  # messages are to be stopped or dropped, nothing says so on disk
    "dismiss.after",  # it is on disk, whoever asked has not been told
    "drop.before",  # a session is to be forgotten, its transcript is put away, its row is there
    "drop.after",  # its row is gone, whoever asked has not been told
    "settle.before",  # the turn is over, nothing says so on disk
    "settle.after",  # turn, reply row and totals are on disk
    "journal.before",  # committed, the transcript file has not been written
    "journal.after",  # the transcript file has been written
    "outbox.claimed",  # a reply part is marked as being sent
    "outbox.sent",  # the platform has it, the receipt is not on disk
    "outbox.receipt",  # the receipt is on disk
    "speech.made",  # what a reply says is a file with sound, nothing of it was sent
    "recover.before",  # start-up found unfinished work
    "recover.after",  # start-up has handed unfinished work back to the lanes
    "flush.after",  # a note is in today's memory file, nothing says that the flush is done
    "compact.before",  # the summary is made, nothing of it is on disk
    "compact.after",  # the compaction is on disk, the run has not gone on
    "child.recorded",  # a sub-agent is on record, its task is not in the inbox
    "child.accepted",  # its task is in the inbox, who asked for it does not know yet
    "child.ended",  # it has ended, its parent has not been told
    "child.announced",  # its result is in the parent's inbox, nothing says so
    "cron.pending",  # a job is to run, its slot is not claimed
    "cron.accepted",  # its message is in the inbox, the job does not know
    "cron.ended",  # it has run, its history does not say so
    "change.before",  # a call that may write files has ended, no journal says what it changed
    "change.after",  # it does, the call still counts as going on
    "tape.before",  # a run is over, its tape is in memory
    "tape.middle",  # all of the tape is in a file, under another name
    "undo.before",  # files are to be put back, nothing says so on disk
    "undo.planned",  # it is on disk, no file was touched
    "undo.middle",  # some files were put back
    "undo.after",  # all of them, the run's journal does not say so
    "undo.marked",  # it says so, the plan is still there
    "copy.rows",  # some rows of a state are copied to another
    "copy.lines",  # a transcript is
    "import.placed",  # a thing of another program's home is in ours, nothing says that it came over
    "import.noted",  # it does
    "export.placed",  # a file of ours is in another program's home, not all of them are
    "restore.whole",  # a backup is unpacked, the home is as it was
    "restore.aside",  # the home is put aside, nothing is in its place
    "config.before",  # a config file is about to be replaced
    "config.after",  # it has been
    "restart.said",  # that we are back is on its way, nothing says so
    "learn.proposed",  # proposals are on disk, nothing says that the session was looked at
    "learn.accepting",  # a yes is on disk, the file is as it was
    "learn.undoing",  # it is to be taken back, nothing was
    "learn.written",  # the file is as it should be, the proposal does not say so
    "update.tried",  # another version answered on a copy, nothing of it is in force
    "update.pointed",  # it is in force, nothing says so
    "update.switched",  # that is on disk, the gateway of the old one runs
    "update.stopped",  # no gateway runs
    "update.fitted",  # the database has the other version's schema
    "update.lowered",  # … it has the old one's again, the other version is in force
    "update.moved",  # a checkout's files are the new ones, the pointer is still there
)


class CrashSwitch:
    """The point that a test has armed, if any, and how many passes are left."""

    def __init__(self) -> None:
        self.name = ""
        self.left = 0


_SWITCH = CrashSwitch()


def arm_crashpoint(spec: str) -> None:
    """Set `name:k` (k from 1). An empty string disarms. Raises ValueError on an unknown name."""
    name, _, count = spec.partition(":")
    if name and name not in NAMES:
        raise ValueError(f"unknown crash point {name!r}")
    _SWITCH.name, _SWITCH.left = name, int(count or 1)


def pass_crashpoint(name: str) -> None:
    """Die here if armed for this pass."""
    if name == _SWITCH.name:
        _SWITCH.left -= 1
        if not _SWITCH.left:
            os._exit(137)
