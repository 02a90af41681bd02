"""Where people already chat. The table is the only place that knows which channels exist; each loads when used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple, cast

from palinurus.channels.kit import Kit
from palinurus.core.types.channel import Channel
from palinurus.errors import ConfigError, Problem


class Entry(NamedTuple):
    """Where a channel is: "module:factory" (factory(kit) -> Channel). `needs` is the module of its library, and
    `extra` the name under which that is installed."""

    where: str
    needs: str = ""
    extra: str = ""


CHANNELS: dict[str, Entry] = {
    "spool": Entry("palinurus.channels.spool:make"),
}


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
