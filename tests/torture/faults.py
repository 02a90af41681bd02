"""The twenty-two faults that scripts proved in the one process, each fix taken back: `make torture PART=faults`.

    python tests/torture/faults.py [NUMBERS]

For every row a copy of the package gets `old` made `new`, and the tests that answer for the fault run on it: one of
them must fail. `test_faults.py` sees to it that every fault has a row and that the texts are where they are said to be.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "palinurus"


class TakenBack(NamedTuple):
    """A part of a fault; `tests` is a file below tests, and words that its tests' names have."""

    fault: int
    part: str
    file: str
    old: str
    new: str
    tests: str


STUCK = 300  # seconds after which a test does not end: that is noticed, too
SUSPECTED = 23  # those that the issue only suspected

FAULTS: tuple[TakenBack, ...] = (
    TakenBack(
        1, "a cancelled submit", "inbox/dispatch.py",
        "return await asyncio.shield(task)", "return await task",
        "inbox/test_dispatch.py caller_goes_away",
    ),
    TakenBack(
        1, "a row that nobody runs", "inbox/dispatch.py",
        "return await self._restore(await self._strays.give_back(), first=True)", "return 0",
        "inbox/test_dispatch.py nobody_runs",
    ),
    TakenBack(
        2, "reading is file and journal", "store/sqlite/store.py",
        "journal = self._read(rows.list_journal_lines, path) if fresh else ()", "journal = ()",
        "flow/test_durable.py no_more_lines",
    ),
    TakenBack(
        3, "a stop is on disk", "store/sqlite/changes.py",
        'tx.conn.execute("UPDATE inbox SET outcome = ?, note = ? WHERE id = ?", (end.outcome, end.note, end.id))',
        "pass",
        "store/sqlite/test_store.py never_comes_back",
    ),
    TakenBack(
        3, "nothing is said after it", "agent/turn.py",
        "end, replies = _stop_end(end, str(abort.reason)), ()", "end = _stop_end(end, str(abort.reason))",
        "agent/test_turn_shell.py",
    ),
    TakenBack(
        3, "what was queued is not sent", "store/sqlite/changes.py", "if end.silent:", "if False:",
        "store/sqlite/test_store.py stopped_run",
    ),
    TakenBack(
        3, "what is dropped is so on disk", "inbox/dispatch.py",
        "await self._dismisser.settle(session, quiet=True)", "pass",
        "flow/test_stop.py dropped",
    ),
    TakenBack(
        4, "another message under the same key", "gateway/methods/chat.py",
        "if not is_repeat(", "if False and not is_repeat(",
        "gateway/methods/test_chat.py another_text",
    ),
    TakenBack(
        4, "another session", "gateway/methods/chat.py",
        "return (first.text, first.session) == (inbound.text, inbound.session)", "return first.text == inbound.text",
        "gateway/methods/test_chat.py another_text",
    ),
    TakenBack(
        5, "the age of a reply", "outbox/send.py",
        "return int((self._clock.monotonic() - self._get(row)[0]) * 1000)", "return self._clock.now() - row.at",
        "outbox/test_deliver_clock.py",
    ),
    TakenBack(
        5, "how long it waits", "outbox/send.py",
        "return self._get(row)[1] - self._clock.monotonic()", "return (row.due - self._clock.now()) / 1000",
        "outbox/test_deliver_clock.py",
    ),
    TakenBack(
        6, "what a dead attempt cost", "agent/recorder.py",
        "steps=steps, spent=spent)", "steps=steps, spent=())",
        "flow/test_stop.py ledger",
    ),
    TakenBack(
        7, "a beat is on disk before it is asked", "triggers/heartbeat.py",
        "        await self._save(last=now, digest=self._digest, tasks=asked, watch=watch)\n        try:\n",
        "        try:\n",
        "triggers/test_heartbeat.py",
    ),
    TakenBack(
        8, "commands write what they change", "inbox/control.py",
        "patch = diff_records(found.record, answer.record)", "patch = msgspec.json.decode(answer.record.encode())",
        "inbox/test_control.py meanwhile",
    ),
    TakenBack(
        9, "its lines leave the journal", "store/sqlite/changes.py",
        "        tx.journal.drop(path, tx.conn)\n", "",
        "store/sqlite/test_store.py dropped",
    ),
    TakenBack(
        9, "it is whole when it is put away", "sessions/lifecycle.py", "await store.complete_file(path)", "pass",
        "flow/test_durable.py deleted",
    ),
    TakenBack(
        10, "as much as there is", "app/program.py",
        "while await self.store.prune(believed.at - KEEP):", "if await self.store.prune(believed.at - KEEP):",
        "flow/test_durable.py however_much",
    ),
    TakenBack(
        11, "the store is asked", "gateway/methods/agent.py",
        "row = await chat.find_run(call, ident)", "row = None",
        "gateway/methods/test_chat.py before_the_restart",
    ),
    TakenBack(
        12, "followers hear the end", "inbox/feed.py",
        "for name in (item, *self._guests.pop(item, ())):", "for name in (item,):",
        "inbox/test_feed.py",
    ),
    TakenBack(
        12, "nothing is kept of it", "inbox/feed.py", "            self._here.discard(name)\n", "",
        "inbox/test_feed.py",
    ),
    TakenBack(
        13, "sessions are found again", "app/program.py",
        "await adopt_transcripts(self.settings.home, self.store)", "pass",
        "flow/test_durable.py lost",
    ),
    TakenBack(
        13, "what no row knows stays", "sessions/upkeep.py",
        "and (base in self.ended or (side and base not in self.files))", "",
        "sessions/test_upkeep.py no_row_knows",
    ),
    TakenBack(
        14, "a clock is believed late", "app/program.py",
        "believed = believe_time(before, now)", "believed = BelievedTime(now)",
        "flow/test_durable.py clock",
    ),
    TakenBack(
        14, "ages by that", "sessions/upkeep.py",
        "at = now if believed is None else min(now, believed)", "at = now",
        "sessions/test_upkeep_maintain.py believed",
    ),
    TakenBack(
        15, "the directory is locked", "store/sqlite/lock.py",
        "fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass",
        "store/sqlite/test_lock.py",
    ),
    TakenBack(
        15, "one writer", "store/sqlite/writer.py",
        "elif self._conn.execute(\"SELECT value FROM meta WHERE key = 'writer'\").fetchone() != (self._name,):",
        "elif False:",
        "store/sqlite/test_lock.py one_writer",
    ),
    TakenBack(
        16, "a pipe is no transcript", "files.py",
        "os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY", "os.O_RDONLY | os.O_NOCTTY",
        "flow/test_durable.py no_file and pipe",
    ),
    TakenBack(
        17, "SIGHUP begins again", "cli/gateway/serve.py", "(signal.SIGUSR1, signal.SIGHUP)", "(signal.SIGUSR1,)",
        "cli/gateway/test_serve_faults.py sighup",
    ),
    TakenBack(
        17, "a config that cannot start goes back", "cli/gateway/serve.py",
        "if before is None:", "if True:",
        "cli/gateway/test_serve_faults.py sighup",
    ),
    TakenBack(
        17, "a token that is taken out of the config", "gateway/token.py",
        "return settings.token.reveal() or ensure_token(home)",
        "return settings.token.reveal()",
        "cli/gateway/test_serve_faults.py taken_out",
    ),
    TakenBack(
        17, "a full disk is one line", "store/sqlite/database.py",
        "cache_size = -4000\")\n    except sqlite3.Error as error:",
        "cache_size = -4000\")\n    except ZeroDivisionError as error:",
        "cli/gateway/test_serve_faults.py takes_nothing and served",
    ),
    TakenBack(
        17, "a log that is lost is said once", "cli/gateway/logs.py",
        "        if self.lost and not lost:\n", "        if self.lost:\n",
        "cli/gateway/test_serve_faults.py said_once",
    ),
    TakenBack(
        18, "keepers end with the gateway", "tools/sandbox/keeper.py",
        "        left, alone = self.end_everything()\n        if status is None:\n",
        "        left, alone = (0, True) if status is None else self.end_everything()\n        if status is None:\n",
        "tools/sandbox/test_keeper.py killed_gateway",
    ),
    TakenBack(
        18, "a stop waits for what starts", "tools/commands/running.py",
        "await child.wait_started(self._order)", "await child.wait_started()",
        "tools/commands/test_running.py while_it_starts",
    ),
    TakenBack(
        18, "what is called off never begins", "tools/sandbox/keeper.py",
        "if select.select([self._channel], [], [], 0)[0]:", "if False:",
        "tools/sandbox/test_children.py called_off",
    ),
    TakenBack(
        18, "an orderly stop ends what ignores SIGTERM", "tools/commands/table.py",
        '            held.end("stopped", grace)', "            pass",
        "tools/commands/test_table.py stopping_ends",
    ),
    TakenBack(
        18, "the record comes first", "tools/commands/table.py",
        "                await self._records.put(self._record(ident, job, background=True))\n            job.check()",
        "                pass\n            job.check()",
        "tools/commands/test_table.py before_the_command",
    ),
    TakenBack(
        18, "one that is waited for has one, too", "tools/commands/table.py",
        "            asyncio.get_running_loop().call_later(SETTLED, self._settled, held)", "            pass",
        "tools/commands/test_table.py takes_its_time",
    ),
    TakenBack(
        19, "thousands of calls", "agent/think.py",
        "drop_surplus_calls(event.message, CALLS_KEPT)", "event.message, 0",
        "agent/test_think.py calls",
    ),
    TakenBack(
        19, "an endless answer", "providers/wire/build.py",
        "if self.size > MAX_ANSWER and not self.ended:", "if False:",
        "providers/wire/test_build.py endless",
    ),
    TakenBack(
        19, "what is kept of it", "providers/wire/build.py", "                self._shorten()\n", "",
        "providers/wire/test_build.py endless",
    ),
    TakenBack(
        19, "a big body: tools", "gateway/openai/completions.py",
        "if len(body.tools or ()) > TOOLS:", "if False:",
        "gateway/openai/test_completions.py",
    ),
    TakenBack(
        19, "a big body: files", "gateway/attachments.py",
        "if len(attachments or ()) > ATTACHMENTS:", "if False:",
        "gateway/methods/test_chat.py too_much",
    ),
    TakenBack(
        19, "the upkeep of many sessions", "sessions/upkeep.py",
        "made = await asyncio.to_thread(plan_upkeep, rows, seen, rules, at, busy=frozenset(busy()))",
        "made = plan_upkeep(rows, seen, rules, at, busy=frozenset(busy()))",
        "sessions/test_upkeep_maintain.py in_a_thread",
    ),
    TakenBack(
        19, "a crowd waits", "gateway/listener.py", "            if self._crowded():\n", "            if False:\n",
        "gateway/test_listener.py",
    ),
    TakenBack(
        19, "without descriptors", "gateway/listener.py", "self._pause(listening, EXHAUSTED)", "pass",
        "gateway/test_listener.py descriptors",
    ),
    TakenBack(
        20, "a receipt is remembered", "outbox/deliver.py",
        "self._receipts[row.id] = result.message_id", "pass",
        "outbox/test_deliver.py receipt",
    ),
    TakenBack(
        21, "of unknown fate: once more", "outbox/deliver.py",
        "UNCERTAIN in row.error and not drafted", "True and not drafted",
        "outbox/test_deliver.py cut_off_by_a_crash",
    ),
    TakenBack(
        21, "never a third time", "outbox/deliver.py",
        "UNCERTAIN in row.error and not drafted", "False and not drafted",
        "outbox/test_deliver.py third_time",
    ),
    TakenBack(
        21, "and that is told", "outbox/deliver.py",
        "await self._tell_lost(row, reply)\n            await self._give_up(row, reply, joined, f\"{UNCERTAIN}; not",
        "await self._give_up(row, reply, joined, f\"{UNCERTAIN}; not",
        "outbox/test_deliver.py third_time",
    ),
    TakenBack(
        21, "no tool call is left open", "inbox/dismiss.py",
        "self._tasks.start(self._answer_calls(done.ended))", "pass",
        "flow/test_stop.py tool_call_open",
    ),
    TakenBack(
        21, "nor by a store that fails", "agent/turn.py",
        "for result in find_open_calls(prepared.transcript, prepared.plan.item):", "for result in ():",
        "agent/test_turn_shell.py tools_have_ended",
    ),
    TakenBack(
        21, "no fragment of a draft", "outbox/drafts.py",
        "            self._start(item, self._tidy(item))", "            pass",
        "outbox/test_drafts.py stopped_run",
    ),
    TakenBack(
        21, "an answer on disk is not worked on", "agent/turn.py",
        "if prepared.finished is not None:\n                end =", "if False:\n                end =",
        "agent/test_turn_shell.py without_asking",
    ),
    TakenBack(
        22, "the clock went back: intervals", "triggers/jobs.py",
        "        if isinstance(schedule, EverySchedule):\n            moved", "        if False:\n            moved",
        "triggers/test_scheduler.py year_ahead",
    ),
    TakenBack(
        22, "the clock went back: lines", "triggers/jobs.py",
        "        if not isinstance(schedule, AtSchedule):\n            await self.save(held, cursor=now)", "",
        "triggers/test_scheduler.py year_ahead",
    ),
    TakenBack(
        22, "the night the clocks go back", "core/schedule/fire.py",
        "        if instant > start:\n            return _ms(instant)\n        wall = found + SECOND",
        "        if instant <= start:\n            return None\n        return _ms(instant)",
        "core/schedule/test_fire.py",
    ),
    TakenBack(
        22, "a line without a zone", "app/wiring.py", "zone=detect_timezone(self._environ),", 'zone="",',
        "flow/test_schedules.py",
    ),
    TakenBack(
        SUSPECTED, "chat.inject", "gateway/context.py", "            transcript.rollback(mark, lines)\n", "",
        "gateway/methods/test_chat.py",
    ),
    TakenBack(
        SUSPECTED, "lines of a broken turn", "agent/turn.py",
        "self._s.preparer.forget(prepared.transcript)", "pass",
        "flow/test_durable.py nobodys_memory",
    ),
    TakenBack(
        SUSPECTED, "a session that was deleted", "store/sqlite/changes.py",
        '" WHERE key = ? AND session_id = ?",\n        (row.updated, row.data, row.key, row.session_id)',
        '" WHERE key = ?",\n        (row.updated, row.data, row.key)',
        "store/sqlite/test_store.py touch",
    ),
    TakenBack(
        SUSPECTED, "a sweep on a full disk", "inbox/dismiss.py",
        "        except StateError:\n            asyncio.get_running_loop().call_later(AGAIN, self.begin, session)\n"
        "            raise\n        finally:",
        "        finally:",
        "inbox/test_dispatch_shell.py there_is_room",
    ),
    TakenBack(
        SUSPECTED, "an approval's expiry", "services/approvals.py",
        "return row.id not in self._waiting and row.expires", "return row.expires",
        "services/test_approvals.py",
    ),
    TakenBack(
        SUSPECTED, "an upload's folder", "app/media.py", "        sync_folder(folder)\n", "        pass\n",
        "app/test_media.py",
    ),
)  # fmt: skip


def take_back(row: TakenBack) -> bool:
    """Did a test notice?"""
    with tempfile.TemporaryDirectory(prefix="taken-back") as folder:
        package = Path(folder, "palinurus")
        shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("static", "__pycache__"))
        file = package / row.file
        file.write_text(file.read_text().replace(row.old, row.new))
        where, _, words = row.tests.partition(" ")
        argv = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/{where}"]
        argv += ["-k", words] if words else []
        env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT / 'tests'}", "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, timeout=STUCK)
        except subprocess.TimeoutExpired:
            return True
    if done.returncode not in (0, 1):
        raise AssertionError(f"{row.part}: pytest ended with {done.returncode}\n{done.stdout.decode()[-2000:]}")
    return done.returncode == 1


def main(wanted: list[str]) -> int:
    rows = [row for row in FAULTS if not wanted or str(row.fault) in wanted]
    unseen = 0
    for row in rows:
        seen = take_back(row)
        unseen += not seen
        name = "suspected" if row.fault == SUSPECTED else f"fault {row.fault}"
        print(f"{name:10} {row.part:40} {'red: ' + row.tests if seen else 'NO TEST NOTICES: ' + row.tests}", flush=True)
    print(f"faults: {len(rows)} parts taken back, {unseen} that no test noticed")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
