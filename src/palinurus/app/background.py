"""What goes on without a message from a person, wired: sub-agents, jobs and heartbeats, open promises."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from palinurus import late
from palinurus.agent.invoke import DirectToolCaller
from palinurus.agent.plan.offer import ToolOffers
from palinurus.app.receivers import ChannelReceivers
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.inbound import Inbound, Sender
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import ToolResult
from palinurus.core.types.node import OpenNodes
from palinurus.errors import StateError
from palinurus.inbox.dispatch import Dispatcher
from palinurus.outbox.deliver import Deliverer
from palinurus.plugins.hooks import Hooks
from palinurus.providers.catalog import Catalog
from palinurus.services.facts import find_session_model
from palinurus.services.inbox import InboxPort
from palinurus.services.subagents.control import SubagentControl
from palinurus.services.wake import SessionWaker
from palinurus.sessions.record import SessionRecord
from palinurus.store.news import StoreNews
from palinurus.store.port import Store
from palinurus.tasks import TaskSet
from palinurus.tools.commands.look import Look, LookAnswer, LookDoor
from palinurus.tools.commands.record import CommandRecords
from palinurus.tools.commands.table import CommandTable
from palinurus.tools.program.cron import SchedulerListener, SchedulerPort
from palinurus.tools.web.egress import EgressGuard, FetchLimits, FetchRequest
from palinurus.triggers.scheduler import Scheduler

log = logging.getLogger(__name__)

LIFE = "life/"  # granted to each node under its name
LOOK_SECONDS, LOOK_BYTES = 45.0, 200_000
LATER = 1.0  # seconds
GRACE, PATIENCE = 1.0, 4.0  # seconds between SIGTERM and SIGKILL, and for both
ANSWER = FetchLimits(size=10_000, time=30.0, redirects=0)  # of a webhook's receiver


def make_offered(
    settings: Settings, catalog: Catalog, offers: ToolOffers
) -> Callable[[SessionKey, Inbound, SessionRecord], tuple[str, ...]]:
    """The tools that a session has for a message: what its sub-agents may have at most."""

    def offered(key: SessionKey, inbound: Inbound, record: SessionRecord) -> tuple[str, ...]:
        model = find_session_model(catalog, settings.agents[key.agent], record)
        # What the model cannot do is no rule: the child may have another model.
        question = msgspec.structs.replace(offers.question(key, inbound, model, record), callable=True, narrow=None)
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


def make_look(home: str, environ: Mapping[str, str]) -> Look:
    """Answers what commands of the agent ask about this program: the same line of `pal`, run by us, on our home."""
    env = {name: value for name, value in environ.items() if name != "OPENCLAW_SHELL"}
    env |= {"PALINURUS_HOME": home, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}

    async def look(line: list[str]) -> LookAnswer:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "palinurus", *line),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
            cwd=home,
        )
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                out, err = await child.communicate()
        except TimeoutError:
            return LookAnswer(75, err=f"pal: no answer within {LOOK_SECONDS:g} seconds\n")
        finally:
            if child.returncode is None:
                child.kill()
        texts = (data[:LOOK_BYTES].decode("utf-8", "replace") for data in (out, err))
        return LookAnswer(child.returncode or 0, *texts)

    return look


def make_webhook_poster(egress: EgressGuard) -> Callable[[str, bytes, dict[str, str]], Awaitable[int]]:
    """Posts what a job ended with: (url, body, headers) to HTTP status."""

    async def post(url: str, body: bytes, headers: dict[str, str]) -> int:
        return (await egress.get(FetchRequest(url, headers, body), ANSWER)).status

    return post


def make_command_table(
    settings: Settings, environ: Mapping[str, str], store: Store, clock: Clock, *, inbox: InboxPort, nodes: OpenNodes
) -> CommandTable:
    """The commands of all sessions: what is on disk of them, who is told when one ends, what they may see of us."""
    door = LookDoor(settings.home, make_look(settings.home, environ))
    told = SessionWaker(inbox, clock)
    node = settings.store.name_node(settings.home) if settings.store.find_url(environ) else ""
    return CommandTable(settings.tools.exec.process, clock, CommandRecords(store, node), told, door=door, nodes=nodes)


def make_watch_command(invoke: DirectToolCaller) -> Callable[[SessionKey, str, float], Awaitable[str | None]]:
    """Runs the command that a heartbeat watches, as the agent itself would: same rules, same containment, and nobody
    to ask. None: it did not run."""

    async def run(key: SessionKey, command: str, limit: float) -> str | None:
        asked = {"command": command, "timeout": limit, "yieldMs": int(limit * 1000) + 30_000}  # it is ended before
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
        share_topic = late.load_part("commitments").share_topic
        return any(share_topic(text, f"{job['name']} {job['payload']}") for job in scheduler.jobs())

    return pending


def make_heir(store: Store, subagents: SubagentControl) -> Callable[[str], Awaitable[None]]:
    """Takes up what a node that is gone had begun, if no other node does."""

    async def inherit(node: str) -> None:
        try:
            if await store.grant(f"heir/{node}"):
                await subagents.take_over()
        except StateError as exc:  # we go, too: the next who hears of it, or starts, does it
            log.warning("what node %s had begun is not taken up here: %s", node, exc.message)

    return inherit


class NewsHearer:
    """What other nodes of the same state change, told to everybody here who keeps a copy. One node alone hears nothing.

    `rereads`: by kind of record, who reads one again. `heirs` takes up what a node that is gone had begun. `hear` is
    what the store is given."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        deliverer: Deliverer,
        scheduler: Scheduler,
        receivers: ChannelReceivers,
        *,
        heirs: Callable[[str], Awaitable[None]],
        rereads: Mapping[str, Callable[[str], Awaitable[None]]],
    ) -> None:
        self._dispatcher = dispatcher
        self._deliverer = deliverer
        self._scheduler = scheduler
        self._receivers = receivers
        self._heirs = heirs
        self.rereads = dict(rereads)
        self._turn = asyncio.Lock()
        self._tasks = TaskSet("hearing of another node")

    def hear(self, news: StoreNews) -> None:
        self._dispatcher.hear(news)
        if news.what == "replies":
            self._deliverer.wake(news.key)
        elif news.what == "record":
            self._tasks.start(self._reread(news))
        elif news.what == "released":
            self._tasks.start(self._take_over(news))

    async def _reread(self, news: StoreNews) -> None:
        async with self._turn:  # one after the other: an older reading never replaces a newer one
            await self._scheduler.hear(news)
            if news.key in self.rereads:
                await self.rereads[news.key](news.detail)

    async def _take_over(self, news: StoreNews) -> None:
        """What another node did alone is free: whoever asks first does it from now on."""
        if news.key.startswith(LIFE):
            await self._heirs(news.key.removeprefix(LIFE))
        else:
            await self._scheduler.hear(news)
            self._deliverer.wake_all()
            await self._receivers.open()

    async def close(self) -> None:
        await self._tasks.close()


def write_later(write: Callable[[], None]) -> None:
    """Have files that are only for diagnosis written in a moment, off the path of messages."""
    loop = asyncio.get_running_loop()

    def begin() -> None:
        with suppress(RuntimeError):  # the program is ending, which has written it already
            loop.run_in_executor(None, write)

    loop.call_later(LATER, begin)
