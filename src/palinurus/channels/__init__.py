"""Where people already chat. The table is the only place that knows which channels exist; each loads when used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

from palinurus.core.types.outbound import Channel

# channel id -> "module:factory"; the factory takes the channel's config and returns the Channel.
CHANNELS: dict[str, str] = {
    "spool": "palinurus.channels.spool:make",
}


def channel(name: str, config: dict[str, Any]) -> Channel | None:
    """The channel, or None if there is no such one. Raises ConfigError when its settings are wrong."""
    if name not in CHANNELS:
        return None
    module, _, attribute = CHANNELS[name].partition(":")
    factory = cast("Callable[[dict[str, Any]], Channel]", getattr(import_module(module), attribute))
    return factory(config)
