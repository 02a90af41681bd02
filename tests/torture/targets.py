"""What the mutation run hunts in: files, the tests that answer for them, mutants made by hand, and those nobody can
notice."""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    """`tests` are the file's own, files and folders; `wide` are asked about mutants that survive those. `processes` are
    the beginnings of those tests among them whose work is done by processes that they start, so that nobody sees which
    lines they pass."""

    tests: tuple[str, ...]
    wide: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    by_hand: bool = False  # only mutants made by hand


FLOWS = (
    "flow/test_app.py", "flow/test_stop.py", "flow/test_queue.py", "flow/test_durable.py", "flow/test_two_nodes.py",
    "flow/test_left_over.py",
)  # fmt: skip
SHELL = ("inbox/test_dispatch_shell.py", "inbox/test_dispatch.py", "inbox/test_dismiss.py")
STORE = (
    "store/sqlite/test_store.py", "store/sqlite/test_writer.py", "store/sqlite/test_writer_faults.py",
    "store/sqlite/test_journal.py", "store/sqlite/test_journal_files.py", "store/sqlite/test_disk.py",
    "store/sqlite/test_database.py", "store/sqlite/test_lock.py", "store/sqlite/test_store_shell.py",
)  # fmt: skip
APART = (
    "store/sqlite/test_disk.py", "store/sqlite/test_journal.py::test_a_write_cut_short",
    "store/sqlite/test_writer_faults.py::test_a_failing_fsync",
)  # fmt: skip

PORT = ("store/sqlite/test_store.py::TestSqlite",)
DELIVER = ("outbox/test_deliver.py", "outbox/test_deliver_cut.py", "outbox/test_deliver_clock.py")
TURN = ("agent/test_turn.py", "agent/test_turn_shell.py")

TARGETS: dict[str, Target] = {
    "inbox/dispatch.py": Target(SHELL, FLOWS),
    "inbox/lanes.py": Target(("inbox/test_lanes_pump.py", "inbox/test_lanes.py"), (*SHELL, *FLOWS)),
    "inbox/dismiss.py": Target(SHELL, FLOWS),
    "inbox/running.py": Target(("inbox/test_running.py", *SHELL), FLOWS),
    "inbox/feed.py": Target(("inbox/test_feed.py", "inbox/test_relay.py", *SHELL), FLOWS),
    "agent/turn.py": Target(
        (*TURN, "flow/test_replay.py"),
        (*FLOWS, "flow/test_hooks.py", "flow/test_directives.py", "flow/test_delivery.py"),
    ),
    "agent/recorder.py": Target(("agent/test_recorder.py", *TURN)),
    "agent/settle.py": Target(("agent/test_settle.py", *TURN), (*FLOWS, "flow/test_heartbeat.py")),
    "agent/recover.py": Target(("agent/test_think.py", "agent/test_recover.py"), by_hand=True),
    "agent/compaction/compactor.py": Target(("agent/test_turn_shell.py",), by_hand=True),
    "store/sqlite/store.py": Target(
        (*PORT, "store/sqlite/test_store_shell.py"), ("store/sqlite/test_reader.py", *STORE)
    ),
    "store/sqlite/writer.py": Target(STORE, processes=APART),
    "store/sqlite/journal.py": Target(STORE, processes=APART),
    "store/sqlite/database.py": Target((*STORE, "store/sqlite/test_reader.py"), processes=APART),
    "store/sqlite/changes.py": Target(
        (*PORT, "store/sqlite/test_store_shell.py"),
        (*STORE, "store/sqlite/test_machine.py", "store/sqlite/test_schema.py", "flow/test_two_nodes.py"),
    ),
    "outbox/deliver.py": Target(DELIVER, ("outbox/test_drafts.py", "flow/test_delivery.py")),
    "outbox/send.py": Target(("outbox/test_send.py", "outbox/test_send_shapes.py"), DELIVER),
    "sessions/transcript.py": Target(
        ("sessions/test_transcript.py",),
        ("sessions/test_tree.py", "sessions/test_compactions.py", "flow/test_history.py"),
    ),
}  # fmt: skip

# (file, text, what to make of it): what once nobody noticed.
HAND: tuple[tuple[str, str, str], ...] = (
    ("store/sqlite/database.py", "synchronous = FULL", "synchronous = NORMAL"),
    ("store/sqlite/database.py", "synchronous = FULL", "synchronous = OFF"),
    ("store/sqlite/journal.py", "os.fsync(fd)", "fd"),
    ("store/sqlite/journal.py", "self._sync(directory, directory)", "directory"),
    ("store/sqlite/journal.py", "if error.errno == errno.EIO:", "if False:"),
    ("agent/turn.py", "call_later(limit, abort.set", "call_later(86_400.0, abort.set"),
    ("agent/turn.py", "await record.flush()\n            await s.store.yield", "await s.store.yield"),
    ("agent/recorder.py", "= lines, absorbed, steps, spent\n            raise", "= [], [], [], []\n            raise"),
    ("agent/recover.py", "self.at + 1 >= len(self._choices)", "self.at + 1 >= min(2, len(self._choices))"),
    (
        "agent/compaction/compactor.py",
        "record.put(entry)\n        await self._scene.record.flush()",
        "record.put(entry)",
    ),
    ("inbox/dispatch.py", "if slot and (accepted is None or accepted.claim is None):", "if slot and accepted is None:"),
    ("outbox/deliver.py", 'if result.trouble == "cut":', "if False:"),
    ("outbox/deliver.py", "if not self._channel.dedupes and unsure:", "if False:"),
    ("outbox/deliver.py", 'row.state == "sending" and (receipt', 'row.state == "" and (receipt'),
    ("outbox/deliver.py", "UNCERTAIN in row.error and not drafted", "False and not drafted"),
)

# (file, part of what the mutant says, why nobody can notice it)
EQUIVALENT: tuple[tuple[str, str, str], ...] = (
    ("inbox/dispatch.py", "task.add_done_callback(self._taking", "what is over stays in the set: memory, no behaviour"),
    (
        "inbox/dispatch.py",
        "in `if self._running.get(run.claim.session) is run",
        "who finds the mailbox closed says it again",
    ),
    ("inbox/dispatch.py", "without `run is not None` in `match effect", "only runs are steered into, or stopped"),
    ("agent/turn.py", "returns False in `return True`", "the transcript is read again, and is the same"),
    ("agent/turn.py", "returns True in `return False`", "all of it was flushed, or somebody else has ended it"),
    (
        "inbox/dispatch.py",
        "without `message` in `session, lane, message = (claim.session, claim.lane",
        "it saves the reading, no more",
    ),
    ("inbox/dispatch.py", "await self._clock.sleep(0)", "who goes first on the loop is no promise"),
    ("inbox/dispatch.py", "in `free = session not in", "the store says the same, and the slot is given back"),
    ("inbox/lanes.py", "in `if self._stopped or not (blind or self._lanes.backlog", "who begins then finds nothing"),
    ("inbox/lanes.py", "Gt swapped in `if found > 0", "none are added"),
    (
        "inbox/lanes.py",
        "returns None in `return len(claims) == slots`",
        "if all were used there is no slot left to use",
    ),
    ("inbox/lanes.py", "Gt swapped in `if left > 0", "what is due now is due with the next turn of the loop"),
    ("inbox/feed.py", "LtE swapped in `if left is not None", "no time left, or none at all"),
    ("inbox/dismiss.py", "dropped in `run.marked = True", "it is marked once more, in the same way"),
    ("inbox/dismiss.py", "without `run is not None` in `if run is not None and mark", "only a run has a mark"),
    ("inbox/dismiss.py", "without `row is not None` in `if row", "what has just ended has a row"),
    ("inbox/dismiss.py", "without `row.verdict is not None`", "whoever is doomed has a verdict"),
    ("store/sqlite/store.py", "Gt swapped in `return await asyncio.to_thread", "a file of exactly that size"),
    ("store/sqlite/store.py", "LtE swapped in `if after and", "the rest of nothing is nothing"),
    ("store/sqlite/database.py", "Gt swapped in `if os.path.getsize(file) > CHECKED", "a file of exactly that size"),
    ("sessions/transcript.py", "Gt swapped in `if len(data) > _INLINE", "a file of exactly that size"),
    ("sessions/transcript.py", "without `not self._stale`", "what is stale is put together anew when it is asked for"),
    ("sessions/transcript.py", "sync=True in `write_whole_file(name", "a copy of lines that stay where they are"),
    ("sessions/transcript.py", "dropped in `transcript.messages()", "whoever asks first puts them together"),
    ("outbox/deliver.py", "self._out.discard(account)", "it is asked again each time, and says the same"),
    (
        "outbox/deliver.py",
        "without `drafts is not None` in `if drafts is not None and draft",
        "who has none has no draft",
    ),
    (
        "outbox/deliver.py",
        "await asyncio.gather(*left",
        "they are cancelled, and end with the loop's next turn",
    ),
    ("outbox/deliver.py", "dropped in `await self._settle(row, reply, joined, found", "the next look finds it as well"),
    ("outbox/deliver.py", "returns None in `return follows.wait`", "it looks at once, and finds how long it waits"),
    ("inbox/dispatch.py", "without `rules is None` in `alone", "a command goes by its lane's queue, at once as well"),
    (
        "inbox/dispatch.py",
        "without `message is not None` in `match effect",
        "only a message that arrives is steered, and it is there",
    ),
    ("sessions/transcript.py", "self._cached.pop(relpath", "whoever reads it anew puts that in its place"),
    ("store/sqlite/writer.py", "daemon=", "who ends the process closes the store first"),
    ("store/sqlite/writer.py", "without `not self._queue` in `while", "whoever comes meanwhile waits longer, no more"),
    ("store/sqlite/writer.py", "a transaction could not be undone", "ROLLBACK does not fail"),
    ("store/sqlite/writer.py", "RELEASE op", "the commit releases it"),
    ("store/sqlite/writer.py", "self._wake.wait", "it waits less or longer, and asks what is to be done again"),
    ("store/sqlite/journal.py", "not a regular file", "the handle is closed, and writing to it an OSError, too"),
    ("store/sqlite/journal.py", "without `torn`", "a file that ends with a newline is glued to as well"),
    ("store/sqlite/journal.py", "done.lastrowid", "there always is one"),
    ("store/sqlite/journal.py", "without `data` in `if data and", "nothing is written either way"),
    ("store/sqlite/journal.py", "len(present) < len(wanted)", "it looks again, at all of it, and finds the same"),
    ("store/sqlite/journal.py", "size > TAIL", "it looks again, at all of it, and finds the same"),
)
