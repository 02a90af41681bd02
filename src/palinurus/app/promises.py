"""Promises, plugged into the program: what counts as something that keeps one."""

from __future__ import annotations

from typing import Protocol

from palinurus.core.commitments import share_topic
from palinurus.inbox.children.nest import SubagentControl
from palinurus.inbox.promises import PromiseFollower
from palinurus.store.port import Store
from palinurus.tools.process.table import CommandTable
from palinurus.triggers.clockwork import Scheduler


class PromiseProgram(Protocol):
    """The App, as far as promises need it."""

    store: Store
    nest: SubagentControl
    processes: CommandTable
    clockwork: Scheduler


def make_promises(app: PromiseProgram) -> PromiseFollower:
    """One for the program."""

    def pending(session: str, text: str) -> bool:
        busy = any(row.background and row.status == "running" and row.session == session for row in app.processes.all())
        if busy or app.nest.count_waiting(session):
            return True
        return any(share_topic(text, f"{job['name']} {job['payload']}") for job in app.clockwork.jobs())

    return PromiseFollower(app.store, pending)
