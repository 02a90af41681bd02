"""Sub-agents, wired: who takes their messages, what their parents may, who ends their commands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from palinurus.agent.cell import ToolSandboxes
from palinurus.agent.offer import ToolOffers
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import SessionKey
from palinurus.inbox.children.birth import SubagentParts
from palinurus.inbox.children.life import SubagentInboxPort
from palinurus.inbox.children.nest import SubagentControl
from palinurus.inbox.commands.facts import find_session_model
from palinurus.inbox.dispatch import Dispatcher
from palinurus.plugins.hooks import Hooks
from palinurus.providers.catalog import Catalog
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcripts
from palinurus.store.port import InboxRow, Store
from palinurus.tools.process.table import CommandTable

GRACE, PATIENCE = 1.0, 4.0  # seconds between SIGTERM and SIGKILL, and for both


class SubagentProgram(Protocol):
    """The App, as far as sub-agents need it. `dispatcher` and `offers` are there when something runs."""

    settings: Settings
    store: Store
    catalog: Catalog
    clock: Clock
    hooks: Hooks
    dispatcher: Dispatcher
    processes: CommandTable
    offers: ToolOffers

    async def wait(self, item: str) -> InboxRow: ...


def make_subagents(app: SubagentProgram, transcripts: Transcripts, env: Mapping[str, str]) -> SubagentControl:
    """One for the program."""
    cells = ToolSandboxes(app.settings, env)

    def offered(key: SessionKey, inbound: Inbound, record: SessionRecord) -> tuple[str, ...]:
        model = find_session_model(app.catalog, app.settings.agents[key.agent], record)
        # What the model cannot do is no rule: the child may have another model.
        question = app.offers.question(key, inbound, model, record)._replace(callable=True, narrow=None)
        return tuple(app.offers.offer(question).tools)

    def workspace(key: SessionKey) -> str:
        return cells.of(app.settings.agents[key.agent], key).workspace

    parts = SubagentParts(app.settings, app.catalog, app.store, transcripts, app.clock, offered, workspace)
    doors = SubagentInboxPort(
        submit=lambda inbound: app.dispatcher.submit(inbound),
        wait=app.wait,
        running=lambda session: app.dispatcher.running(session),
        stop=lambda session: app.dispatcher.abort(session, "stop"),
        abort=lambda item, reason: app.dispatcher.abort_item(item, reason),
        processes=lambda session: stop_session_processes(app.processes, session),
    )
    return SubagentControl(parts, doors, app.hooks)


async def stop_session_processes(processes: CommandTable, session: str) -> int:
    """End the commands that a session has in the background. Returns how many."""
    running = [held for held in processes.list_of_session(session) if held.running]
    for held in running:
        held.end("killed", GRACE)
    if running:
        await asyncio.wait([held.task for held in running], timeout=PATIENCE)
    return len(running)
