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
from palinurus.store.port import ItemRow, Store
from palinurus.tools.web.door import Ask, Limits
from palinurus.tools.web.family import Web
from palinurus.triggers.clockwork import Clockwork
from palinurus.triggers.events import Events
from palinurus.triggers.ports import Doors

log = logging.getLogger(__name__)

ANSWER = Limits(size=10_000, time=30.0, redirects=0)  # of a webhook's receiver


class Program(Protocol):
    """The App, as far as triggers need it. `dispatcher` is there when something runs."""

    settings: Settings
    store: Store
    clock: Clock
    channels: dict[str, Channel]
    dispatcher: Dispatcher
    web: Web
    invoke: DirectToolCaller
    hooks: Hooks

    async def wait(self, item: str) -> ItemRow: ...


def doors(app: Program) -> Doors:
    """What triggers see of the program."""

    async def post(url: str, body: bytes, headers: dict[str, str]) -> int:
        return (await app.web.door.get(Ask(url, headers, body), ANSWER)).status

    async def run(key: SessionKey, command: str, limit: float) -> str | None:
        """As the agent itself would run it: same rules, same containment, and nobody to ask."""
        asked = {"command": command, "timeout": limit, "yieldMs": int(limit * 2000)}
        got = await app.invoke(key, "exec", asked, Sender("heartbeat", owner=True, allowed=True))
        if isinstance(got, ToolResult) and not got.isError:
            return got.text
        why = "this agent has no exec tool" if got is None else got.text if isinstance(got, ToolResult) else got.message
        log.warning("the command that heartbeats watch did not run: %s", why[:300])
        return None

    return Doors(
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


def clockwork(app: Program) -> Clockwork:
    """One for the program. Nothing runs before its `start`. Plugins hear of every change of a job."""
    made = Clockwork(doors(app), Events(app.store))

    def changed(event: str, payload: dict[str, Any]) -> None:
        if event == "cron" and app.hooks.has("cron_changed"):
            app.hooks.observe("cron_changed", payload)

    made.follow(changed)
    return made
