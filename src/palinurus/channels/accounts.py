"""Several accounts on one platform as one channel: each receives by itself, and one that fails stops no other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from palinurus.clock import Clock
from palinurus.core.types.channel import Abilities, Act, Answer, Channel, Hook, NotSent, Sent, Status, Submit
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply

log = logging.getLogger(__name__)

LONGEST = 60.0  # seconds between two tries of an account that fails


class Accounts:
    """Implements `Channel`. `all` holds the accounts by name; there is at least one."""

    def __init__(self, name: str, every: Mapping[str, Channel], clock: Clock) -> None:
        self.name = name
        self.all = dict(every)
        self._clock = clock
        self._first = next(iter(self.all.values()))

    @property
    def dedupes(self) -> bool:
        return all(one.dedupes for one in self.all.values())

    @property
    def abilities(self) -> Abilities:
        return self._first.abilities

    async def run(self, submit: Submit) -> None:
        await asyncio.gather(*(self._keep(account, one, submit) for account, one in self.all.items()))

    async def _keep(self, account: str, one: Channel, submit: Submit) -> None:
        wait = 1.0
        while True:
            try:
                await one.run(submit)
                return
            except Exception:  # task boundary: logged; the other accounts go on
                log.exception("channel %s, account %s: receiving failed; again in %g s", self.name, account, wait)
            await self._clock.sleep(wait)
            wait = min(wait * 2, LONGEST)

    async def send(self, reply: Reply) -> Sent | NotSent:
        one = self._of(reply.target)
        return await one.send(reply) if one is not None else self._none(reply.target)

    async def find(self, reply: Reply) -> Sent | None:
        one = self._of(reply.target)
        return await one.find(reply) if one is not None else None

    async def act(self, target: Target, act: Act) -> Sent | NotSent:
        one = self._of(target)
        return await one.act(target, act) if one is not None else self._none(target)

    def status(self) -> Status:
        """The worst of the accounts'."""
        return max((one.status() for one in self.all.values()), key=lambda s: _BAD.index(s.state))

    async def hook(self, request: Hook, submit: Submit) -> Answer:
        return Answer(404, b"name the account in the address\n")

    def _of(self, target: Target) -> Channel | None:
        """The account; the first where none is named ("default") and none is called so."""
        return self.all.get(target.account) or (self._first if target.account == "default" else None)

    def _none(self, target: Target) -> NotSent:
        return NotSent(f"{self.name} has no account {target.account!r}", "refused")


_BAD = ("ready", "stopped", "starting", "reconnecting", "signed_out", "failed")
