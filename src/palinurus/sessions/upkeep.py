"""What of sessions should go: old rows, too many rows, old archives, too many bytes. `plan_upkeep` is pure, rows and
files in, actions out; `run_upkeep` does them beside a running gateway.

Planning again after some of the actions gives the rest of them, so it may stop anywhere. A row goes before its file; a
file left without row is an orphan, which the next planning knows. Each rule looks at what the ones before it left.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from palinurus.config.sections.schedule import UpkeepSettings
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.errors import StateBroken, StateUnwritable
from palinurus.sessions import files, search
from palinurus.sessions.files import SessionFile, parse_archive_time
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import SessionRow, Store

log = logging.getLogger(__name__)

Reason: TypeAlias = Literal["old", "cron", "many", "archive", "orphan", "left over", "disk"]

HOUR, DAY = 3_600_000, 86_400_000
YOUNG = HOUR  # an unreferenced file this young may belong to a session that is just being made

_RESULT = re.compile(r"\.jsonl\.result-[0-9a-f]{16}$", re.ASCII)
_SIDE = re.compile(r"\.jsonl(?:\.bad-\d+|\.bak[\w.-]*|\.result-[0-9a-f]{16})$", re.ASCII)
_LEFT = re.compile(r"\.jsonl\.(?:result-[0-9a-f]{16}\.)?(?:(?:part|import)-\d+|\d+\.[0-9a-f]{8}\.tmp)$", re.ASCII)


class UpkeepReport(NamedTuple):
    """What was planned and how much of it was done: nothing in mode warn."""

    plan: UpkeepPlan
    done: tuple[UpkeepAction, ...] = ()
    failed: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = sum(1 for action in self.done if action.key)
        gone = sum(1 for action in self.done if action.path and not action.keep)
        return f"{rows} sessions dropped, {gone} files removed"


async def run_upkeep(
    home: str, store: Store, rules: UpkeepSettings, now: int, busy: Callable[[], Collection[str]] = tuple
) -> UpkeepReport:
    """Look, plan, do. `busy` names the sessions that have a run going. Raises StateError if the store does."""
    rows = await store.sessions()
    seen = await asyncio.to_thread(files.list_session_files, home)
    made = plan_upkeep(rows, seen, rules, now, busy=busy())
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
        await store.drop_session(action.key)
    if action.path and action.keep:
        await asyncio.to_thread(files.archive_file, home, action.path, "deleted", now)
    elif action.path:
        await asyncio.to_thread(files.remove_file, home, action.path)
    return True


class UpkeepAction(NamedTuple):
    """Drop the row `key` (and archive or remove its file), or, without a key, remove the file `path`."""

    reason: Reason
    path: str = ""
    key: str = ""
    updated: int = 0  # of the row, when this was planned
    keep: bool = False  # the file is archived, not removed
    size: int = 0


class UpkeepPlan(NamedTuple):
    """`over`: agents whose files stay above the limit because the rest is protected."""

    actions: tuple[UpkeepAction, ...] = ()
    over: tuple[str, ...] = ()


class _Row(NamedTuple):
    key: str
    parsed: SessionKey | None
    agent: str
    path: str
    updated: int
    removable: bool


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


def compute_high_water(limit: int) -> int:
    """So many rows are let be: cleaning up is done in batches."""
    return limit + (1 if limit <= 49 else max(25, limit // 10))


def _row(row: SessionRow, busy: Collection[str]) -> _Row:
    key = parse_session_key(row.key)
    agent = key.agent if key else row.agent
    try:
        path = SessionRecord.decode(row.data).path(agent)
    except StateBroken:
        # What it says is lost, but not what it stands for: a person decides about it.
        return _Row(
            row.key, key, agent, f"agents/{agent}/sessions/{row.session_id}.jsonl", updated=row.updated, removable=False
        )
    removable = key is not None and not is_protected(key) and row.key not in busy
    return _Row(row.key, key, agent, path, updated=row.updated, removable=removable)


class _Work:
    """One agent's rows and files while rules are applied to them."""

    def __init__(self, rows: list[_Row], files: list[SessionFile], rules: UpkeepSettings, now: int) -> None:
        self.rows = sorted(rows, key=lambda row: (row.updated, row.key))
        self.files = {file.path: file for file in files}
        self.rules = rules
        self.now = now
        self.uses = Counter(row.path for row in rows)
        self.total = sum(file.size for file in files)
        self.actions: list[UpkeepAction] = []

    def age(self) -> None:
        """pruneAfter, and cron.sessionRetention for single runs of jobs."""
        rules = self.rules
        for row in list(self.rows):
            run = row.parsed is not None and row.parsed.kind == "cron" and ":run:" in row.key
            if run and rules.cron_after is not None and self._before(row.updated, rules.cron_after):
                self._drop(row, "cron")
            elif rules.prune_after is not None and self._before(row.updated, rules.prune_after):
                self._drop(row, "old")

    def count(self) -> None:
        """maxEntries."""
        if len(self.rows) <= compute_high_water(self.rules.max_entries):
            return
        surplus = len(self.rows) - self.rules.max_entries
        for row in [row for row in self.rows if row.removable][:surplus]:
            self._drop(row, "many")

    def archives(self) -> None:
        """resetArchiveRetention, for archives and for transcripts that no session has any more."""
        after = self.rules.archive_after
        for file in list(self.files.values()):
            if _LEFT.search(file.name):
                if file.at < self.now - DAY:
                    self._remove(file, "left over")
            elif after is not None and (reason := self._loose(file)) and self._before(_since(file), after):
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
                self.actions[at] = action._replace(keep=False)
                self.total -= action.size
        for row in list(self.rows):
            if self.total > water:
                self._drop(row, "disk", keep=False)
        return self.total <= limit

    # --- steps ---

    def _before(self, at: int, seconds: float) -> bool:
        return at < self.now - seconds * 1000

    def _old_enough(self, file: SessionFile) -> bool:
        reason = self._loose(file)
        return reason == "archive" or (reason is not None and file.at < self.now - YOUNG)

    def _loose(self, file: SessionFile) -> Reason | None:
        """Is it a transcript that no session uses, or what is left of one? Unknown names are nobody's business."""
        if parse_archive_time(file.name) is not None:
            return "archive"
        side = _SIDE.search(file.path)
        base = file.path[: side.start()] + ".jsonl" if side else file.path
        if base.endswith(".jsonl") and not self.uses[base]:
            return "orphan"
        return "left over" if _RESULT.search(file.path) else None  # of a session that goes on

    def _drop(self, row: _Row, reason: Reason, *, keep: bool = True) -> None:
        if not row.removable:
            return
        self.rows.remove(row)
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
