"""Doing what `upkeep` plans, beside a running gateway. May die anywhere: the next time plans from what is left.

A row goes before its file; a file left without row is an orphan, which the next planning knows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import NamedTuple

from palinurus.config.settings import UpkeepSettings
from palinurus.errors import StateUnwritable
from palinurus.sessions import files, search
from palinurus.sessions.upkeep import UpkeepAction, UpkeepPlan, plan_upkeep
from palinurus.store.port import Store

log = logging.getLogger(__name__)


class UpkeepReport(NamedTuple):
    """What was planned and how much of it was done: nothing in mode warn."""

    plan: UpkeepPlan
    done: tuple[UpkeepAction, ...] = ()
    failed: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = sum(1 for action in self.done if action.key)
        gone = sum(1 for action in self.done if action.path and not action.keep)
        return f"{rows} sessions dropped, {gone} files removed"


def _nobody() -> Collection[str]:
    return ()


async def run_upkeep(
    home: str, store: Store, rules: UpkeepSettings, now: int, busy: Callable[[], Collection[str]] = _nobody
) -> UpkeepReport:
    """Look, plan, do. `busy` names the sessions that have a run going. Raises StateError if the store does."""
    rows = await store.sessions()
    seen = await asyncio.to_thread(files.list_session_files, home)
    made = plan_upkeep(rows, seen, rules, now, busy())
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
            if await _do(home, store, action, now, busy):
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
