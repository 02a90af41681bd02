"""The configured channels, each account with what it may use. Nothing of it is loaded for channels nobody set up."""

from __future__ import annotations

import logging
import os

from palinurus.app.media import Files
from palinurus.channels import CHANNELS, channel
from palinurus.channels.accounts import Accounts
from palinurus.channels.kit import Kit, Memo, Wanted
from palinurus.clock import Clock
from palinurus.config.channels import AccountSettings
from palinurus.config.settings import Settings
from palinurus.core.types.channel import Channel
from palinurus.core.types.inbound import Inbound
from palinurus.errors import ConfigError, NotFound
from palinurus.inbox.commands.table import TABLE
from palinurus.plugins.api import Brought
from palinurus.store.port import Store
from palinurus.tools.web.door import Door

log = logging.getLogger(__name__)

KIND = "channel"  # of the records that accounts keep


class Records:
    """Implements `Memo` on the store."""

    def __init__(self, store: Store, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    async def get(self, key: str) -> bytes | None:
        found = await self._store.get_record(KIND, f"{self._prefix}/{key}")
        return found.data if found else None

    async def put(self, key: str, data: bytes) -> None:
        await self._store.put_record(KIND, f"{self._prefix}/{key}", data)


class Passing:
    """Implements `Memo` for a sign-in: nothing of it outlives the command."""

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}

    async def get(self, key: str) -> bytes | None:
        return self._held.get(key)

    async def put(self, key: str, data: bytes) -> None:
        self._held[key] = data


def signing(settings: Settings, channel: str, account: str, clock: Clock, door: Door) -> Kit:
    """What a sign-in or sign-out of an account may use. Raises NotFound."""
    own = settings.accounts.get(channel, {}).get(account)
    if own is None:
        raise NotFound(f"{channel} has no account {account!r}", fix=f"`pal channels add {channel}` adds one")
    return kit(own, settings, Passing(), clock, door, _none)


def opened(
    settings: Settings, store: Store, clock: Clock, door: Door, given: Brought, wanted: Wanted
) -> dict[str, Channel]:
    """Every configured channel that can be made, by id. One that cannot is told of in the log and stops no other."""
    made: dict[str, Channel] = {}
    for name, accounts in settings.accounts.items():
        if name in given.channels:
            if (brought := _brought(name, settings, given)) is not None:
                made[name] = brought
            continue
        if name not in CHANNELS:
            log.warning("channels.%s: there is no such channel; it is left out", name)
            continue
        tried = {account: _open(own, settings, store, clock, door, wanted) for account, own in accounts.items()}
        every = {account: one for account, one in tried.items() if one is not None}
        if every:
            made[name] = Accounts(name, every, clock) if len(accounts) > 1 else next(iter(every.values()))
    return made


def kit(own: AccountSettings, settings: Settings, memo: Memo, clock: Clock, door: Door, wanted: Wanted) -> Kit:
    """What one account may use."""
    folder = os.path.join(settings.home, "channels", own.channel, own.account)
    roots = tuple(agent.workspace for agent in settings.agents.values())
    files = Files(os.path.join(settings.home, "media", "inbound"), roots, own.media, door, clock)
    menu = tuple((name, command.help) for name, command in TABLE.items())
    return Kit(own, own.own, clock, files, memo, folder, wanted, menu)


async def _none(inbound: Inbound) -> bool:
    """While somebody signs in, no message is taken."""
    return False


def _open(
    own: AccountSettings, settings: Settings, store: Store, clock: Clock, door: Door, wanted: Wanted
) -> Channel | None:
    try:
        memo = Records(store, f"{own.channel}/{own.account}")
        return channel(own.channel, kit(own, settings, memo, clock, door, wanted))
    except ConfigError as exc:
        log.error("channel %s, account %s is left out: %s", own.channel, own.account, exc.message)
        return None


def _brought(name: str, settings: Settings, given: Brought) -> Channel | None:
    try:
        return given.channels[name](settings.channels[name])
    except Exception:  # border: a plugin's channel that cannot be made stops nobody else
        log.exception("channels.%s: its plugin cannot open it; it is left out", name)
        return None
