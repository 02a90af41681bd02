"""Where people already chat. The table is the only place that knows which channels exist; each loads when used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple, cast

from palinurus.channels.kit import Kit
from palinurus.core.types.channel import Channel
from palinurus.errors import ConfigError, Problem


class Entry(NamedTuple):
    """Where a channel is: "module:factory" (factory(kit) -> Channel). `needs` is the module of its library, and
    `extra` the name under which that is installed. `own`: only the owner can write there, so nobody is asked."""

    where: str
    needs: str = ""
    extra: str = ""
    own: bool = False


CHANNELS: dict[str, Entry] = {
    "spool": Entry("palinurus.channels.spool:make", own=True),
    "discord": Entry("palinurus.channels.discord.channel:make", "discord", "discord"),
    "telegram": Entry("palinurus.channels.telegram.channel:make", "telegram", "telegram"),
    "irc": Entry("palinurus.channels.irc.channel:make"),
    "signal": Entry("palinurus.channels.signal.channel:make"),
    "slack": Entry("palinurus.channels.slack.channel:make", "slack_sdk", "slack"),
    "matrix": Entry("palinurus.channels.matrix.channel:make"),
    "email": Entry("palinurus.channels.email.channel:make"),
    "whatsapp": Entry("palinurus.channels.whatsapp.client:make", "neonize", "whatsapp"),
    "webhook": Entry("palinurus.channels.webhook.channel:make"),
}

# Channels that sign in or out by themselves: "module:function", async, answering "" or why it did not work.
# Signing in takes (kit, show): `show` prints a line or a picture for the person who signs in. Signing out takes (kit).
LOGINS: dict[str, str] = {"whatsapp": "palinurus.channels.whatsapp.client:login"}
LOGOUTS: dict[str, str] = {"whatsapp": "palinurus.channels.whatsapp.client:logout"}


def deed(table: Mapping[str, str], name: str) -> Callable[..., Awaitable[str]] | None:
    """The function that a table names; None if the channel has none."""
    module, _, attribute = table.get(name, "").partition(":")
    return cast("Callable[..., Awaitable[str]]", getattr(import_module(module), attribute)) if module else None


def channel(name: str, kit: Kit) -> Channel | None:
    """The channel, or None if there is no such one. Raises ConfigError when its settings or its library are wanting."""
    entry = CHANNELS.get(name)
    if entry is None:
        return None
    if entry.needs and find_spec(entry.needs) is None:
        hint = f"pip install 'palinurus[{entry.extra}]'"
        raise ConfigError((Problem(f"channels.{name}", f"needs the package {entry.needs}", hint=hint),))
    module, _, attribute = entry.where.partition(":")
    return cast("Callable[[Kit], Channel]", getattr(import_module(module), attribute))(kit)
