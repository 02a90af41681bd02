"""channels.*.heartbeat: what of heartbeats may be seen in a chat. An account's word goes before its channel's, that
before channels.defaults. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.config.schema import Config


class HeartbeatVisibility(msgspec.Struct, frozen=True):
    """showOk, showAlerts, useIndicator. With none of them there is no reason to beat for that chat."""

    ok: bool = False
    alerts: bool = True
    indicator: bool = True


_KEYS = {"showOk": "ok", "showAlerts": "alerts", "useIndicator": "indicator"}


def resolve_visibility(config: Config) -> dict[str, HeartbeatVisibility]:
    """By "channel/account", "channel", and "" for all others."""
    channels = config.channels or {}
    usual = _over(HeartbeatVisibility(), channels.get("defaults"))
    found = {"": usual}
    for name, section in channels.items():
        if name == "defaults" or not isinstance(section, dict):
            continue
        own = found[name] = _over(usual, section)
        accounts = section.get("accounts")
        for account, body in accounts.items() if isinstance(accounts, dict) else ():
            found[f"{name}/{account}"] = _over(own, body)
    return found


def _over(base: HeartbeatVisibility, section: Any) -> HeartbeatVisibility:
    written = section.get("heartbeat") if isinstance(section, Mapping) else None
    if not isinstance(written, Mapping):
        return base
    changes = {own: written[key] for key, own in _KEYS.items() if isinstance(written.get(key), bool)}
    return msgspec.structs.replace(base, **changes)
