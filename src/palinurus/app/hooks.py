"""A platform's HTTP request on its way to the account it is for."""

from __future__ import annotations

from collections.abc import Mapping

from palinurus.channels.accounts import AccountsChannel
from palinurus.config.settings import Settings
from palinurus.core.types.channel import Channel


def find_account(channels: Mapping[str, Channel], settings: Settings, channel: str, account: str) -> Channel | None:
    """The account of that name; None if there is none. A channel that was handed in has one, "default"."""
    found = channels.get(channel)
    if isinstance(found, AccountsChannel):
        return found.all.get(account)
    return found if account in (settings.accounts.get(channel) or ("default",)) else None
