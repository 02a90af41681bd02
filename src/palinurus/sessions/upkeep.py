"""What of sessions should go: old rows, too many rows, old archives, too many bytes. `plan_upkeep` is pure, rows and
files in, actions out; `run_upkeep` does them beside a running gateway.

Planning again after some of the actions gives the rest of them, so it may stop anywhere. A file goes before its row; a
row without file is known to the next planning. Each rule looks at what the ones before it left. A transcript that no
row knows stays: the row may be what was lost.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from palinurus.config.sections.schedule import UpkeepSettings
from palinurus.core.text import format_count
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.errors import StateBroken, StateUnwritable
from palinurus.patterns import compile_late
from palinurus.sessions import files, search
from palinurus.sessions.files import SessionFile, parse_archive_time
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import SessionRow, Store

log = logging.getLogger(__name__)

Reason: TypeAlias = Literal["old", "cron", "many", "archive", "orphan", "left over", "disk"]

HOUR, DAY = 3_600_000, 86_400_000
YOUNG = HOUR  # an unreferenced file this young may belong to a session that is just being made

_RESULT = compile_late(r"\.jsonl\.result-[0-9a-f]{16}$", re.ASCII)
_SIDE = compile_late(r"\.jsonl(?:\.bad-\d+|\.bak[\w.-]*|\.result-[0-9a-f]{16})$", re.ASCII)
_LEFT = compile_late(r"\.jsonl\.(?:result-[0-9a-f]{16}\.)?(?:(?:part|import)-\d+|\d+\.[0-9a-f]{8}\.tmp)$", re.ASCII)


class UpkeepReport(msgspec.Struct, frozen=True):
    """What was planned and how much of it was done: nothing in mode warn."""

    plan: UpkeepPlan
    done: tuple[UpkeepAction, ...] = ()
    failed: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = sum(1 for action in self.done if action.key)
        gone = sum(1 for action in self.done if action.path and not action.keep)
        return f"{format_count(rows, 'session')} dropped, {format_count(gone, 'file')} removed"


async def run_upkeep(
    home: str,
    store: Store,
    rules: UpkeepSettings,
    now: int,
    busy: Callable[[], Collection[str]] = tuple,
    *,
    believed: int | None = None,
) -> UpkeepReport:
    """Look, plan, do. `busy` names the sessions that have a run going; ages are judged by `believed`, if that is less
    than what the clock says. Raises StateError if the store does."""
    rows = await store.sessions()
    seen = await asyncio.to_thread(files.list_session_files, home)
    at = now if believed is None else min(now, believed)
    # in a thread: with ten thousand sessions everybody would wait for it
    made = await asyncio.to_thread(plan_upkeep, rows, seen, rules, at, busy=frozenset(busy()))
    if made.over:
        log.warning("sessions of %s take more than maxDiskBytes, and the rest is protected", ", ".join(made.over))
    if not made.actions:
        return UpkeepReport(made)
    if not rules.enforce:
        log.warning("session maintenance (mode warn) would take %d steps; nothing is done", len(made.actions))
        return UpkeepReport(made)
    done: list[UpkeepAction] = []
    failed: list[str] = []
    for action in made.actions:
        try:
            if await _do(home, store, action, now, busy=busy):
                done.append(action)
        except StateUnwritable as exc:  # one file that cannot be touched does not keep the others
            failed.append(exc.message)
            log.warning("session maintenance: %s", exc.message)
    paths = [action.path for action in done if action.path]
    await asyncio.to_thread(search.forget_files, home, paths)
    report = UpkeepReport(made, tuple(done), tuple(failed))
    log.info("session maintenance: %s", report)
    return report


async def _do(home: str, store: Store, action: UpkeepAction, now: int, busy: Callable[[], Collection[str]]) -> bool:
    """One action, unless the session has come to life since it was planned."""
    if action.key:
        row = await store.session(action.key)
        waiting = await store.list_waiting(action.key)
        if row is None or row.updated != action.updated or waiting or action.key in busy():
            return False
    if action.path and action.keep:
        await store.complete_file(action.path)
        await asyncio.to_thread(files.archive_file, home, action.path, "deleted", now)
    elif action.path:
        await asyncio.to_thread(files.remove_file, home, action.path)
    if action.key:
        await store.drop_session(action.key, action.path)
    return True


class UpkeepAction(msgspec.Struct, frozen=True):
    """Drop the row `key` (and archive or remove its file), or, without a key, remove the file `path`."""

    reason: Reason
    path: str = ""
    key: str = ""
    updated: int = 0  # of the row, when this was planned
    keep: bool = False  # the file is archived, not removed
    size: int = 0


class UpkeepPlan(msgspec.Struct, frozen=True):
    """`over`: agents whose files stay above the limit because the rest is protected."""

    actions: tuple[UpkeepAction, ...] = ()
    over: tuple[str, ...] = ()


class _Row(msgspec.Struct, frozen=True):
    key: str
    parsed: SessionKey | None
    agent: str
    path: str
    updated: int
    removable: bool
    made: bool = False  # by the program, not by a person
    ended: tuple[str, ...] = ()  # transcripts of the sessions before this one


def plan_upkeep(
    rows: Sequence[SessionRow],
    files: Sequence[SessionFile],
    rules: UpkeepSettings,
    now: int,
    busy: Collection[str] = (),
) -> UpkeepPlan:
    """Everything that should go at `now`. Sessions in `busy` are left alone."""
    actions: list[UpkeepAction] = []
    over: list[str] = []
    known = [_row(row, busy) for row in rows]
    for agent in sorted({row.agent for row in known} | {file.agent for file in files}):
        work = _Work(
            [row for row in known if row.agent == agent], [file for file in files if file.agent == agent], rules, now
        )
        work.age()
        work.count()
        work.archives()
        if not work.disk():
            over.append(agent)
        actions += work.actions
    return UpkeepPlan(tuple(actions), tuple(over))


def is_protected(key: SessionKey) -> bool:
    """The main session, groups, channels and threads stay whatever their age."""
    segments = key.rest.split(":")
    return key.kind in ("main", "group") or "thread" in segments or "topic" in segments


def is_made_by_program(key: SessionKey) -> bool:
    """Was it a job, a webhook, a sub-agent or a request that named no session that began it?"""
    return key.kind in ("cron", "hook", "subagent") or key.unnamed


def compute_high_water(limit: int) -> int:
    """So many rows are let be: cleaning up is done in batches."""
    return limit + (1 if limit <= 49 else max(25, limit // 10))


def _row(row: SessionRow, busy: Collection[str]) -> _Row:
    key = parse_session_key(row.key)
    agent = key.agent if key else row.agent
    try:
        record = SessionRecord.decode(row.data)
    except StateBroken:
        # What it says is lost, but not what it stands for: a person decides about it.
        return _Row(
            row.key, key, agent, f"agents/{agent}/sessions/{row.session_id}.jsonl", updated=row.updated, removable=False
        )
    removable = key is not None and not is_protected(key) and row.key not in busy
    ended = (f"agents/{agent}/sessions/{ident}.jsonl" for ident in record.usageFamilySessionIds or ())
    made = key is not None and is_made_by_program(key)
    return _Row(
        row.key, key, agent, record.path(agent), updated=row.updated, removable=removable, made=made, ended=tuple(ended)
    )


class _Work:
    """One agent's rows and files while rules are applied to them."""

    def __init__(self, rows: list[_Row], files: list[SessionFile], rules: UpkeepSettings, now: int) -> None:
        self._rows = {row.key: row for row in sorted(rows, key=lambda row: (row.updated, row.key))}
        self.files = {file.path: file for file in files}
        self.rules = rules
        self.now = now
        self.uses = Counter(row.path for row in rows)
        self.ended = {path for row in rows for path in row.ended}
        self.total = sum(file.size for file in files)
        self.actions: list[UpkeepAction] = []

    @property
    def rows(self) -> list[_Row]:
        """Those that are left, oldest first."""
        return list(self._rows.values())

    def age(self) -> None:
        """pruneAfter, and cron.sessionRetention for single runs of jobs."""
        rules = self.rules
        for row in self.rows:
            run = row.parsed is not None and row.parsed.kind == "cron" and ":run:" in row.key
            if run and rules.cron_after is not None and self._before(row.updated, rules.cron_after):
                self._drop(row, "cron")
            elif rules.prune_after is None or not self._before(row.updated, rules.prune_after):
                continue
            elif "age" in rules.people or row.made:
                self._drop(row, "old")

    def count(self) -> None:
        """maxEntries."""
        counted = [row for row in self.rows if "count" in self.rules.people or row.made]
        if len(counted) <= compute_high_water(self.rules.max_entries):
            return
        surplus = len(counted) - self.rules.max_entries
        for row in [row for row in counted if row.removable][:surplus]:
            self._drop(row, "many")

    def archives(self) -> None:
        """resetArchiveRetention, for archives and for transcripts of sessions that were followed by another."""
        after = self.rules.archive_after
        for file in list(self.files.values()):
            if _LEFT.search(file.name):
                if file.at < self.now - DAY:
                    self._remove(file, "left over")
            elif after is None or not (reason := self._loose(file)) or not self._before(_since(file), after):
                continue
            elif "archive" in self.rules.people or not self._was_ended(file, reason):
                self._remove(file, reason)

    def disk(self) -> bool:
        """maxDiskBytes: what belongs to no session first, then the oldest sessions. False if that is not enough."""
        limit = self.rules.max_disk
        if limit is None or self.total <= limit:
            return True
        water = limit if self.rules.high_water is None else self.rules.high_water
        for file in sorted(self.files.values(), key=lambda file: (_since(file), file.path)):
            if self.total > water and self._old_enough(file):
                self._remove(file, "disk")
        for at, action in enumerate(self.actions):
            if self.total > water and action.keep:  # there is no room for its archive
                self.actions[at] = msgspec.structs.replace(action, keep=False)
                self.total -= action.size
        aged = [*((row.updated, row) for row in self.rows), *self._unknown()]
        parts: dict[str, list[SessionFile]] = {}
        for file in self.files.values():
            parts.setdefault(file.path.partition(".jsonl")[0], []).append(file)
        for _, entry in sorted(aged, key=lambda pair: pair[0]):
            if self.total > water and isinstance(entry, _Row):
                self._drop(entry, "disk", keep=False)
            elif self.total > water and isinstance(entry, SessionFile):
                for part in parts[entry.path.partition(".jsonl")[0]]:
                    if part.path in self.files and part.path.startswith(entry.path):
                        self._remove(part, "disk")
        return self.total <= limit

    # --- steps ---

    def _before(self, at: int, seconds: float) -> bool:
        return at < self.now - seconds * 1000

    def _old_enough(self, file: SessionFile) -> bool:
        reason = self._loose(file)
        return reason == "archive" or (reason is not None and file.at < self.now - YOUNG)

    def _loose(self, file: SessionFile) -> Reason | None:
        """Is it a transcript that is over, or what is left of one? What nobody knows is nobody's business."""
        if parse_archive_time(file.name) is not None:
            return "archive"
        side = _SIDE.search(file.path)
        base = file.path[: side.start()] + ".jsonl" if side else file.path
        if (
            base.endswith(".jsonl")
            and not self.uses[base]
            and (base in self.ended or (side and base not in self.files))
        ):
            return "orphan"
        return "left over" if _RESULT.search(file.path) else None  # of a session that goes on

    def _was_ended(self, file: SessionFile, reason: Reason) -> bool:
        """Is it a conversation that a person ended and began anew, not one that was deleted?"""
        if reason == "orphan":
            return f"{file.path.partition('.jsonl')[0]}.jsonl" in self.ended
        return reason == "archive" and ".jsonl.deleted." not in file.name

    def _unknown(self) -> list[tuple[int, SessionFile]]:
        """Transcripts that no row knows: they go no sooner than a session as old as they are."""
        old = (file for file in self.files.values() if file.at < self.now - YOUNG and file.name.endswith(".jsonl"))
        return [(file.at, file) for file in old if not self.uses[file.path] and file.path not in self.ended]

    def _drop(self, row: _Row, reason: Reason, *, keep: bool = True) -> None:
        if not row.removable:
            return
        del self._rows[row.key]
        self.uses[row.path] -= 1
        file = None if self.uses[row.path] else self.files.pop(row.path, None)
        path, size = (file.path, file.size) if file else ("", 0)
        if not keep:
            self.total -= size
        self.actions.append(UpkeepAction(reason, path, row.key, row.updated, keep=keep and file is not None, size=size))

    def _remove(self, file: SessionFile, reason: Reason) -> None:
        del self.files[file.path]
        self.total -= file.size
        self.actions.append(UpkeepAction(reason, file.path, size=file.size))


def _since(file: SessionFile) -> int:
    at = parse_archive_time(file.name)
    return file.at if at is None else at


def sum_freed_bytes(actions: Iterable[UpkeepAction]) -> int:
    """Bytes that are freed."""
    return sum(action.size for action in actions if not action.keep)
