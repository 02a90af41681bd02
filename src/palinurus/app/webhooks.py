"""Webhooks, plugged into the program: their messages go in through the inbox, their events beside the clockwork's."""

from __future__ import annotations

from palinurus.app.triggers import Program, doors
from palinurus.plugins.hooks import Hooks
from palinurus.triggers.events import Events
from palinurus.triggers.webhooks import Webhooks


def webhooks(app: Program, events: Events, hooks: Hooks) -> Webhooks:
    """One for the program."""
    return Webhooks(doors(app), events, hooks)
