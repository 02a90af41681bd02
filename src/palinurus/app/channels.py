"""The configured channels, each account with what it may use. Nothing of it is loaded for channels nobody set up."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from palinurus.app.media import ChannelFiles
from palinurus.channels import CHANNELS, make_channel
from palinurus.channels.accounts import AccountsChannel
from palinurus.channels.kit import AccountMemo, ChannelKit, WantsTurn
from palinurus.clock import Clock
from palinurus.config.sections.channels import AccountSettings
from palinurus.config.settings import Settings
from palinurus.core.types.channel import Channel
from palinurus.core.types.inbound import Inbound
from palinurus.errors import ConfigError, NotFound
from palinurus.inbox.commands.table import TABLE
from palinurus.plugins.api import PluginContributions
from palinurus.providers.speech.maker import SPEECH_FOLDER
from palinurus.store.port import Store
from palinurus.store.shared import SharedBytes
from palinurus.tools.web.egress import EgressGuard

# A platform's HTTP request on its way to the account it is for.


def find_account(channels: Mapping[str, Channel], settings: Settings, channel: str, account: str) -> Channel | None:
    """The account of that name; None if there is none. A channel that was handed in has one, "default"."""
    found = channels.get(channel)
    if isinstance(found, AccountsChannel):
        return found.all.get(account)
    return found if account in (settings.accounts.get(channel) or ("default",)) else None


log = logging.getLogger(__name__)

KIND = "channel"  # of the records that accounts keep


class ChannelRecords:
    """Implements `AccountMemo` on the store."""

    def __init__(self, store: Store, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    async def get(self, key: str) -> bytes | None:
        found = await self._store.get_record(KIND, f"{self._prefix}/{key}")
        return found.data if found else None

    async def put(self, key: str, data: bytes | None) -> None:
        await self._store.put_record(KIND, f"{self._prefix}/{key}", data)


class SignInMemo:
    """Implements `AccountMemo` for a sign-in: nothing of it outlives the command."""

    def __init__(self) -> None:
        self._held: dict[str, bytes | None] = {}

    async def get(self, key: str) -> bytes | None:
        return self._held.get(key)

    async def put(self, key: str, data: bytes | None) -> None:
        self._held[key] = data


def make_signin_kit(settings: Settings, channel: str, account: str, clock: Clock, door: EgressGuard) -> ChannelKit:
    """What a sign-in or sign-out of an account may use. Raises NotFound."""
    own = settings.accounts.get(channel, {}).get(account)
    if own is None:
        raise NotFound(f"{channel} has no account {account!r}", fix=f"`pal channels add {channel}` adds one")
    return make_account_kit(own, settings, SignInMemo(), clock, door=door, wanted=_none)


class OpenedChannels(dict[str, Channel]):
    """Channels by id, and why accounts are not among them: (channel, account) -> in words."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: dict[tuple[str, str], str] = {}


def open_channels(
    settings: Settings, store: Store, clock: Clock, door: EgressGuard, given: PluginContributions, wanted: WantsTurn
) -> OpenedChannels:
    """Every configured channel that can be made. One that cannot stops no other."""
    made = OpenedChannels()
    for name, accounts in settings.accounts.items():
        if name in given.channels:
            brought = _brought(name, settings, given)
            if isinstance(brought, str):
                made.failed |= {(name, account): brought for account in accounts}
            else:
                made[name] = brought
            continue
        if name not in CHANNELS:
            log.warning("channels.%s: there is no such channel; it is left out", name)
            made.failed |= {(name, account): "there is no such channel" for account in accounts}
            continue
        tried = {
            account: _open(own, settings, store, clock, door=door, wanted=wanted) for account, own in accounts.items()
        }
        made.failed |= {(name, account): one for account, one in tried.items() if isinstance(one, str)}
        every = {account: one for account, one in tried.items() if not isinstance(one, str)}
        if every:
            again = next(iter(accounts.values())).reconnect
            made[name] = AccountsChannel(name, every, clock, again) if len(accounts) > 1 else next(iter(every.values()))
    return made


def make_account_kit(
    own: AccountSettings,
    settings: Settings,
    memo: AccountMemo,
    clock: Clock,
    door: EgressGuard,
    wanted: WantsTurn,
    store: SharedBytes | None = None,
) -> ChannelKit:
    """What one account may use."""
    folder = os.path.join(settings.home, "channels", own.channel, own.account)
    roots = (*(agent.workspace for agent in settings.agents.values()), os.path.join(settings.home, SPEECH_FOLDER))
    files = ChannelFiles(
        os.path.join(settings.home, "media", "inbound"), roots, own.media, door, clock=clock, store=store
    )
    menu = tuple((name, command.help) for name, command in TABLE.items())
    return ChannelKit(own, own.own, clock, files, memo=memo, folder=folder, wanted=wanted, commands=menu)


async def _none(inbound: Inbound) -> bool:
    """While somebody signs in, no message is taken."""
    return False


def _open(
    own: AccountSettings, settings: Settings, store: Store, clock: Clock, door: EgressGuard, wanted: WantsTurn
) -> Channel | str:
    """The channel, or why it cannot be."""
    try:
        memo = ChannelRecords(store, f"{own.channel}/{own.account}")
        kit = make_account_kit(own, settings, memo, clock, door=door, wanted=wanted, store=store)
        return make_channel(own.channel, kit) or "there is no such channel"
    except ConfigError as exc:
        log.error("channel %s, account %s is left out: %s", own.channel, own.account, exc.message)
        return exc.message
    # border: what a platform's library finds wrong with a value costs that account, not the start
    except Exception as exc:  # border
        log.exception("channel %s, account %s cannot be opened; it is left out", own.channel, own.account)
        return f"{type(exc).__name__}; the log says more"


def _brought(name: str, settings: Settings, given: PluginContributions) -> Channel | str:
    try:
        return given.channels[name](settings.channels[name])
    except Exception as exc:  # border: a plugin's channel that cannot be made stops nobody else
        log.exception("channels.%s: its plugin cannot open it; it is left out", name)
        return f"its plugin cannot open it: {type(exc).__name__}; the log says more"
