"""Where `gateway.mode` is remote: agents, models, conversations and what they cost are the other gateway's. Commands
ask it, or say that they cannot; what lies here is never shown in their place.
"""

from __future__ import annotations

from collections.abc import Mapping

from palinurus.cli.args import load_settings
from palinurus.cli.reach.http import find_gateway_address
from palinurus.config.settings import Settings
from palinurus.errors import BadRequest, ConfigError


def find_elsewhere(environ: Mapping[str, str]) -> Settings | None:
    """The settings that name the gateway, if it is elsewhere. A config that cannot be read names none: much can be
    looked at without it, and whoever needs it says what is wrong."""
    try:
        settings = load_settings(environ).settings
    except ConfigError:
        return None
    return settings if settings.gateway.mode == "remote" else None


def refuse_elsewhere(settings: Settings, command: str, can: str = "") -> BadRequest:
    """That a command would speak of this machine, with what can be done instead."""
    where = find_gateway_address(settings).url
    also = f"; from here: {can}" if can else ""
    return BadRequest(
        f"`pal {command}` works on files of the gateway, which is elsewhere ({where})",
        fix=f"do it on that machine{also}",
    )
