"""Jobs and heartbeats, wired: who takes their messages, where their answers may go, through which door they post."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from palinurus.agent.direct import DirectToolCaller
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.channel import Channel
from palinurus.core.types.inbound import Sender
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import ToolResult
from palinurus.inbox.dispatch import Dispatcher
from palinurus.plugins.hooks import Hooks
from palinurus.store.port import InboxRow, Store
from palinurus.tools.web.door import FetchLimits, FetchRequest
from palinurus.tools.web.family import WebToolset
from palinurus.triggers.clockwork import Scheduler
from palinurus.triggers.events import SystemEvents
from palinurus.triggers.ports import TriggerPort

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
        return (await app.web.door.get(FetchRequest(url, headers, body), ANSWER)).status

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
