"""The receivers of the channels: one task each, begun again when it breaks; started and stopped by hand too."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from palinurus.channels import CHANNELS, LOGOUTS, advise_missing_library, load_signin_action
from palinurus.channels.accounts import AccountsChannel
from palinurus.channels.intake import USUAL, keep_receiving
from palinurus.channels.kit import ChannelKit
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.channel import Channel, ChannelStatus, SendFailure, SendReceipt, SubmitInbound
from palinurus.core.types.inbound import Inbound, Target
from palinurus.core.types.outbound import Reply
from palinurus.core.types.tool import ToolFailure
from palinurus.errors import BadRequest, NotFound
from palinurus.inbox.receivers import ChannelAccountState, DeliveryStatus
from palinurus.late import load_part
from palinurus.outbox.deliver import name_channel_grant
from palinurus.outbox.post import OutboxPost

log = logging.getLogger(__name__)

HOUR = 3600.0


class ChannelReceivers:
    """Implements `inbox.receivers.ReceiversPort`. `kit` is what an account may use, `grant` the store's."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        channels: Mapping[str, Channel],
        submit: SubmitInbound,
        post: OutboxPost,
        kit: Callable[[str, str], ChannelKit],
        grant: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._channels = channels
        self._submit = submit
        self._post = post
        self._kit = kit
        self._grant = grant
        self.failed: Mapping[tuple[str, str], str] = {}  # accounts that could not be opened, and why
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._heard: dict[str, float] = {}  # when a channel last brought a message
        self._watching: asyncio.Task[None] | None = None
        self.table = CHANNELS

    async def open(self) -> None:
        """Receive everywhere, but where another node does."""
        for name in self._channels:
            if not self._runs(name) and await self._grant(name_channel_grant(name)):
                self._begin(name)
        if self._settings.gateway.check and self._watching is None:
            self._watching = asyncio.ensure_future(self._watch())

    async def close(self) -> None:
        tasks = (*self._tasks.values(), *((self._watching,) if self._watching else ()))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def list_missing(self) -> dict[str, str]:
        return {name: fix for name, entry in self.table.items() if (fix := advise_missing_library(entry))}

    def all(self) -> tuple[ChannelAccountState, ...]:
        """Every account, by channel; last those that could not be opened."""
        made: list[ChannelAccountState] = []
        for name, channel in sorted(self._channels.items()):
            configured = self._settings.accounts.get(name, {})
            several = (
                channel.all if isinstance(channel, AccountsChannel) else {next(iter(configured), "default"): channel}
            )
            for account, one in several.items():
                own = configured.get(account)
                made.append(
                    ChannelAccountState(name, account, one.status(), self._runs(name), dm=own.dm if own else "")
                )
        for (name, account), why in self.failed.items():
            if name not in self._channels or isinstance(self._channels[name], AccountsChannel):
                own = self._settings.accounts[name][account]
                made.append(ChannelAccountState(name, account, ChannelStatus("failed", why), running=False, dm=own.dm))
        return tuple(made)

    async def start(self, channel: str) -> bool:
        """Raises NotFound."""
        self._known(channel)
        if self._runs(channel):
            return False
        self._begin(channel)
        return True

    async def stop(self, channel: str) -> bool:
        """Raises NotFound."""
        self._known(channel)
        if not self._runs(channel):
            return False
        task = self._tasks.pop(channel)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return True

    async def logout(self, channel: str, account: str) -> str:
        """Raises NotFound."""
        self._known(channel)
        leave = load_signin_action(LOGOUTS, channel)
        if leave is None:
            return f"{channel} has no sign-in of its own: take its token out of the config, and revoke it there"
        return await leave(self._kit(channel, account))

    async def send(self, target: Target, text: str, ident: str, wait: float) -> DeliveryStatus:
        """Raises NotFound, DiskFull."""
        self._known(target.channel)
        done = await self._post.send(Reply(target, text, ident), wait)
        return DeliveryStatus(ident, done.state, done.receipt, done.error)

    async def act(self, target: Target, action: str, args: dict[str, Any]) -> SendReceipt | SendFailure:
        """Raises NotFound, BadRequest."""
        self._known(target.channel)
        try:
            act = load_part("message-action")(action, target.channel, self._channels[target.channel].abilities, args)
        except ToolFailure as failure:
            raise BadRequest(str(failure)) from None
        return await self._post.act(target, act)

    def _known(self, channel: str) -> None:
        if channel not in self._channels:
            there = ", ".join(sorted(self._channels)) or "none"
            raise NotFound(f"no channel {channel!r} runs here", fix=f"there is: {there}; `pal channels add` adds one")

    def _runs(self, channel: str) -> bool:
        return channel in self._tasks and not self._tasks[channel].done()

    def _begin(self, name: str) -> None:
        accounts = self._settings.accounts.get(name, {})
        rules = next(iter(accounts.values())).reconnect if accounts else USUAL
        self._heard[name] = self._clock.monotonic()
        run = keep_receiving(self._channels[name], self._take, self._clock, f"channel {name}", rules=rules)
        self._tasks[name] = asyncio.ensure_future(run)

    async def _take(self, inbound: Inbound) -> str:
        self._heard[inbound.target.channel] = self._clock.monotonic()
        return await self._submit(inbound)

    async def _watch(self) -> None:
        """Look at every channel now and then, and connect those anew that are down or heard nothing for long."""
        rules = self._settings.gateway
        bad: set[str] = set()  # at the last look
        done: dict[str, list[float]] = {}
        while True:
            await self._clock.sleep(rules.check)
            now = self._clock.monotonic()
            for name in [one for one in self._tasks if self._runs(one) and self._is_watched(one)]:
                down = self._channels[name].status().state in ("starting", "reconnecting", "failed")
                quiet = bool(rules.stale) and now - self._heard.get(name, now) >= rules.stale
                again, was = (down and name in bad) or quiet, [at for at in done.get(name, ()) if now - at < HOUR]
                bad = bad | {name} if down else bad - {name}
                if again and len(was) < rules.restarts:
                    why = "down" if down else f"without a message for {(now - self._heard[name]) / 60:.0f} minutes"
                    log.warning("channel %s is %s: it is connected anew", name, why)
                    done[name] = [*was, now]
                    bad.discard(name)
                    await self.stop(name)
                    self._begin(name)

    def _is_watched(self, name: str) -> bool:
        accounts = self._settings.accounts.get(name, {})
        return not accounts or any(own.watched for own in accounts.values())
