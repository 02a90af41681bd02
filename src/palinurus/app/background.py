"""What goes on without a message from a person, wired: sub-agents, jobs and heartbeats, open promises."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from palinurus.agent.invoke import DirectToolCaller
from palinurus.agent.plan.offer import ToolOffers
from palinurus.config.settings import Settings
from palinurus.core.commitments import share_topic
from palinurus.core.types.inbound import Inbound, Sender
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import ToolResult
from palinurus.plugins.hooks import Hooks
from palinurus.providers.catalog import Catalog
from palinurus.services.facts import find_session_model
from palinurus.services.subagents.control import SubagentControl
from palinurus.sessions.record import SessionRecord
from palinurus.tools.commands.table import CommandTable
from palinurus.tools.program.cron import SchedulerListener, SchedulerPort
from palinurus.tools.web.egress import EgressGuard, FetchLimits, FetchRequest

log = logging.getLogger(__name__)

GRACE, PATIENCE = 1.0, 4.0  # seconds between SIGTERM and SIGKILL, and for both
ANSWER = FetchLimits(size=10_000, time=30.0, redirects=0)  # of a webhook's receiver


def make_offered(
    settings: Settings, catalog: Catalog, offers: ToolOffers
) -> Callable[[SessionKey, Inbound, SessionRecord], tuple[str, ...]]:
    """The tools that a session has for a message: what its sub-agents may have at most."""

    def offered(key: SessionKey, inbound: Inbound, record: SessionRecord) -> tuple[str, ...]:
        model = find_session_model(catalog, settings.agents[key.agent], record)
        # What the model cannot do is no rule: the child may have another model.
        question = offers.question(key, inbound, model, record)._replace(callable=True, narrow=None)
        return tuple(offers.offer(question).tools)

    return offered


async def stop_session_processes(processes: CommandTable, session: str) -> int:
    """End the commands that a session has in the background. Returns how many."""
    running = [held for held in processes.list_of_session(session) if held.running]
    for held in running:
        held.end("killed", GRACE)
    if running:
        await asyncio.wait([held.task for held in running], timeout=PATIENCE)
    return len(running)


def make_webhook_poster(egress: EgressGuard) -> Callable[[str, bytes, dict[str, str]], Awaitable[int]]:
    """Posts what a job ended with: (url, body, headers) to HTTP status."""

    async def post(url: str, body: bytes, headers: dict[str, str]) -> int:
        return (await egress.get(FetchRequest(url, headers, body), ANSWER)).status

    return post


def make_watch_command(invoke: DirectToolCaller) -> Callable[[SessionKey, str, float], Awaitable[str | None]]:
    """Runs the command that a heartbeat watches, as the agent itself would: same rules, same containment, and nobody
    to ask. None: it did not run."""

    async def run(key: SessionKey, command: str, limit: float) -> str | None:
        asked = {"command": command, "timeout": limit, "yieldMs": int(limit * 2000)}
        got = await invoke(key, "exec", asked, Sender("heartbeat", owner=True, allowed=True))
        if isinstance(got, ToolResult) and not got.isError:
            return got.text
        why = "this agent has no exec tool" if got is None else got.text if isinstance(got, ToolResult) else got.message
        log.warning("the command that heartbeats watch did not run: %s", why[:300])
        return None

    return run


def make_job_observer(hooks: Hooks) -> SchedulerListener:
    """Plugins hear of every change of a job."""

    def changed(event: str, payload: dict[str, Any]) -> None:
        if event == "cron" and hooks.has("cron_changed"):
            hooks.observe("cron_changed", payload)

    return changed


def make_promise_check(
    processes: CommandTable, subagents: SubagentControl, scheduler: SchedulerPort
) -> Callable[[str, str], bool]:
    """Is something under way that keeps a promise: (session, its text)?"""

    def pending(session: str, text: str) -> bool:
        busy = any(row.background and row.status == "running" and row.session == session for row in processes.all())
        if busy or subagents.count_waiting(session):
            return True
        return any(share_topic(text, f"{job['name']} {job['payload']}") for job in scheduler.jobs())

    return pending
