"""Webhooks, plugged into the program: their messages go in through the inbox, their events beside the clockwork's."""

from __future__ import annotations

from palinurus.app.triggers import TriggerProgram, make_trigger_port
from palinurus.plugins.hooks import Hooks
from palinurus.triggers.events import SystemEvents
from palinurus.triggers.webhooks import Webhooks


def make_webhooks(app: TriggerProgram, events: SystemEvents, hooks: Hooks) -> Webhooks:
    """One for the program."""
    return Webhooks(make_trigger_port(app), events, hooks)
