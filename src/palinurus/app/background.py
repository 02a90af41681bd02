"""Jobs and heartbeats, wired: who takes their messages, where their answers may go, through which door they post."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Protocol

from palinurus.agent.invoke import DirectToolCaller
from palinurus.agent.plan.offer import ToolOffers
from palinurus.agent.plan.sandbox import ToolSandboxes
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.commitments import share_topic
from palinurus.core.types.channel import Channel
from palinurus.core.types.inbound import Inbound, Sender
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import ToolResult
from palinurus.inbox.commands.facts import find_session_model
from palinurus.inbox.dispatch import Dispatcher
from palinurus.plugins.hooks import Hooks
from palinurus.providers.catalog import Catalog
from palinurus.services.promises import PromiseFollower
from palinurus.services.subagents.control import SubagentControl
from palinurus.services.subagents.follow import SubagentInboxPort
from palinurus.services.subagents.spawn import SubagentParts
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcripts
from palinurus.store.port import InboxRow, Store
from palinurus.tools.commands.table import CommandTable
from palinurus.tools.web.egress import FetchLimits, FetchRequest
from palinurus.tools.web.toolset import WebToolset
from palinurus.triggers.events import SystemEvents
from palinurus.triggers.ports import TriggerPort
from palinurus.triggers.scheduler import Scheduler
from palinurus.triggers.webhooks import Webhooks

# Webhooks, plugged into the program: their messages go in through the inbox, their events beside the clockwork's.


def make_webhooks(app: TriggerProgram, events: SystemEvents, hooks: Hooks) -> Webhooks:
    """One for the program."""
    return Webhooks(make_trigger_port(app), events, hooks)


# Promises, plugged into the program: what counts as something that keeps one.


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


# Sub-agents, wired: who takes their messages, what their parents may, who ends their commands.

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


log = logging.getLogger(__name__)

ANSWER = FetchLimits(size=10_000, time=30.0, redirects=0)  # of a webhook's receiver


class TriggerProgram(Protocol):
    """The App, as far as triggers need it. `dispatcher` is there when something runs."""

    settings: Settings
    store: Store
    clock: Clock
    channels: dict[str, Channel]
    dispatcher: Dispatcher
    web: WebToolset
    invoke: DirectToolCaller
    hooks: Hooks

    async def wait(self, item: str) -> InboxRow: ...


def make_trigger_port(app: TriggerProgram) -> TriggerPort:
    """What triggers see of the program."""

    async def post(url: str, body: bytes, headers: dict[str, str]) -> int:
        return (await app.web.egress.get(FetchRequest(url, headers, body), ANSWER)).status

    async def run(key: SessionKey, command: str, limit: float) -> str | None:
        """As the agent itself would run it: same rules, same containment, and nobody to ask."""
        asked = {"command": command, "timeout": limit, "yieldMs": int(limit * 2000)}
        got = await app.invoke(key, "exec", asked, Sender("heartbeat", owner=True, allowed=True))
        if isinstance(got, ToolResult) and not got.isError:
            return got.text
        why = "this agent has no exec tool" if got is None else got.text if isinstance(got, ToolResult) else got.message
        log.warning("the command that heartbeats watch did not run: %s", why[:300])
        return None

    return TriggerPort(
        app.settings,
        app.store,
        app.clock,
        submit=lambda inbound, sink=None: app.dispatcher.submit(inbound, sink),
        wait=app.wait,
        running=lambda session: app.dispatcher.running(session),
        busy=lambda: len(app.dispatcher.busy),
        post=post,
        channels=lambda: tuple(app.channels),
        run=run,
    )


def make_scheduler(app: TriggerProgram) -> Scheduler:
    """One for the program. Nothing runs before its `start`. Plugins hear of every change of a job."""
    made = Scheduler(make_trigger_port(app), SystemEvents(app.store))

    def changed(event: str, payload: dict[str, Any]) -> None:
        if event == "cron" and app.hooks.has("cron_changed"):
            app.hooks.observe("cron_changed", payload)

    made.follow(changed)
    return made
