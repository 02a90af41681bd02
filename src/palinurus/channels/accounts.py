"""Several accounts on one platform as one channel: each receives by itself, and one that fails stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from palinurus.channels.intake import USUAL, keep_receiving
from palinurus.clock import Clock
from palinurus.config.sections.channels import ReconnectSettings
from palinurus.core.types import channel
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply


class AccountsChannel:
    """Implements `Channel`. `all` holds the accounts by name; there is at least one."""

    def __init__(
        self, name: str, every: Mapping[str, channel.Channel], clock: Clock, rules: ReconnectSettings = USUAL
    ) -> None:
        self.name = name
        self._rules = rules
        self.all = dict(every)
        self._clock = clock
        self._first = next(iter(self.all.values()))

    @property
    def dedupes(self) -> bool:
        return all(one.dedupes for one in self.all.values())

    @property
    def abilities(self) -> channel.ChannelAbilities:
        return self._first.abilities

    async def run(self, submit: channel.SubmitInbound) -> None:
        named = ((f"channel {self.name}, account {account}", one) for account, one in self.all.items())
        await asyncio.gather(
            *(keep_receiving(one, submit, self._clock, what, rules=self._rules) for what, one in named)
        )

    async def send(self, reply: Reply) -> channel.SendResult:
        one = self._of(reply.target)
        return await one.send(reply) if one is not None else self._none(reply.target)

    async def find(self, reply: Reply) -> channel.SendReceipt | None:
        one = self._of(reply.target)
        return await one.find(reply) if one is not None else None

    async def act(self, target: Target, act: channel.ChannelAction) -> channel.SendResult:
        one = self._of(target)
        return await one.act(target, act) if one is not None else self._none(target)

    def status(self) -> channel.ChannelStatus:
        """The worst of the accounts'."""
        return max((one.status() for one in self.all.values()), key=lambda s: _BAD.index(s.state))

    async def hook(
        self, request: channel.ChannelHttpRequest, submit: channel.SubmitInbound
    ) -> channel.ChannelHttpResponse:
        return channel.ChannelHttpResponse(404, b"name the account in the address\n")

    def _of(self, target: Target) -> channel.Channel | None:
        """The account; the first where none is named ("default") and none is called so."""
        return self.all.get(target.account) or (self._first if target.account == "default" else None)

    def _none(self, target: Target) -> channel.SendFailure:
        return channel.SendFailure(f"{self.name} has no account {target.account!r}", "refused")


_BAD = ("ready", "stopped", "starting", "reconnecting", "signed_out", "failed")
