"""Webhooks, plugged into the program: their messages go in through the inbox, their events beside the clockwork's."""

from __future__ import annotations

from palinurus.app.triggers import Program
from palinurus.plugins.hooks import Hooks
from palinurus.triggers.events import Events
from palinurus.triggers.ports import Doors
from palinurus.triggers.webhooks import Webhooks


def webhooks(app: Program, events: Events, hooks: Hooks) -> Webhooks:
    """One for the program."""
    doors = Doors(
        app.settings,
        app.store,
        app.clock,
        submit=lambda inbound, sink=None: app.dispatcher.submit(inbound, sink),
        wait=app.wait,
        running=lambda session: app.dispatcher.running(session),
        channels=lambda: tuple(app.channels),
    )
    return Webhooks(doors, events, hooks)
