"""Jobs and heartbeats, wired: who takes their messages, where their answers may go, through which door they post."""

from __future__ import annotations

from typing import Protocol

from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.channel import Channel
from palinurus.inbox.dispatch import Dispatcher
from palinurus.store.port import ItemRow, Store
from palinurus.tools.web.door import Ask, Limits
from palinurus.tools.web.family import Web
from palinurus.triggers.clockwork import Clockwork
from palinurus.triggers.events import Events
from palinurus.triggers.ports import Doors

ANSWER = Limits(size=10_000, time=30.0, redirects=0)  # of a webhook's receiver


class Program(Protocol):
    """The App, as far as triggers need it. `dispatcher` is there when something runs."""

    settings: Settings
    store: Store
    clock: Clock
    channels: dict[str, Channel]
    dispatcher: Dispatcher
    web: Web

    async def wait(self, item: str) -> ItemRow: ...


def doors(app: Program) -> Doors:
    """What triggers see of the program."""

    async def post(url: str, body: bytes, headers: dict[str, str]) -> int:
        return (await app.web.door.get(Ask(url, headers, body), ANSWER)).status

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
    )


def clockwork(app: Program) -> Clockwork:
    """One for the program. Nothing runs before its `start`."""
    return Clockwork(doors(app), Events(app.store))
