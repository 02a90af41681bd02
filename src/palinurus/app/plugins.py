"""Plugins put in their places: what they bring goes to hooks, commands, channels and the catalog.

Loaded once, before anything runs; nothing that plugins keep survives the process unless they write it themselves.
"""

from __future__ import annotations

import asyncio
import inspect
import logging

from palinurus.channels import CHANNELS
from palinurus.config.settings import Settings
from palinurus.core.policy.groups import BUILTIN_TOOLS as TOOLS
from palinurus.inbox.commands.command import ChatCommand, CommandAnswer, CommandCall, Scope
from palinurus.inbox.commands.table import NAMES as COMMANDS
from palinurus.plugins import load, scripts
from palinurus.plugins.api import PluginCommand, PluginCommandCall, PluginContributions
from palinurus.plugins.hooks import Hooks
from palinurus.plugins.load import PluginSet
from palinurus.providers import VENDORS

log = logging.getLogger(__name__)

RESERVED_NAMES = {"tools": TOOLS, "commands": COMMANDS, "vendors": VENDORS, "channels": CHANNELS}


def load_plugins(settings: Settings, hooks: Hooks, given: PluginContributions | None = None) -> PluginSet:
    """All plugins and hook scripts, their handlers registered; `given` is what an embedding program brings itself."""
    made = load.load_plugins(settings, hooks, RESERVED_NAMES)
    if given is not None:
        load.add_contributions(made.brought, given)
    made.brought.hooks += scripts.load_scripts(settings)[0]
    made.brought.attach(hooks)
    return made


def load_contributions(settings: Settings) -> PluginContributions:
    """What plugins bring, for commands that only look: nothing of it is wired."""
    return (
        load.load_plugins(settings, Hooks(), RESERVED_NAMES).brought
        if settings.plugins.enabled_ids
        else PluginContributions()
    )


def make_plugin_commands(given: PluginContributions) -> dict[str, ChatCommand]:
    """Plugins' chat commands as rows of the table."""
    return {name: _command(spoken) for name, spoken in given.commands.items()}


def _command(spoken: PluginCommand) -> ChatCommand:
    async def run(call: CommandCall) -> CommandAnswer:
        sender, target = call.inbound.sender, call.inbound.target
        asked = PluginCommandCall(
            call.name,
            call.args.strip(),
            str(call.key),
            call.key.agent,
            sender=sender.id,
            channel=target.channel,
            owner=sender.owner,
        )
        if inspect.iscoroutinefunction(spoken.run):
            return CommandAnswer(str(await spoken.run(asked)))
        said = await asyncio.to_thread(spoken.run, asked)
        return CommandAnswer(str(await said if inspect.isawaitable(said) else said))

    scope: Scope = "owner" if spoken.owner else "any"
    return ChatCommand(spoken.name, spoken.help, run, spoken.usage, aliases=(), scope=scope, group="plugins")
