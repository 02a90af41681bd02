"""Sign-ins that all nodes of a fleet have: one node renews a token, and the others find what it got.

Each is a record of the store, too (readable for whoever reads the database, like the gateway's token). A sign-in has
the number of the record that it is the same as. 0: it was made, renewed or left on this machine, and the others do not
have it yet, which is also what a kill between the two writes leaves; whoever looks next tells them.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from palinurus.clock import Clock
from palinurus.errors import StateError
from palinurus.providers.signin.vault import KeptSignIn, SignInVault
from palinurus.store.port import Store
from palinurus.store.records import Records
from palinurus.store.shared import NodeTurns
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

KIND = "sign-in"
LOOK = 2.0  # seconds between two looks whether somebody signed in or out on this machine


class SharedSignIns:
    """`reread` when another node has changed one."""

    def __init__(self, store: Store, clock: Clock, vault: SignInVault) -> None:
        self._clock = clock
        self._vault = vault
        self._records = Records(store, KIND, KeptSignIn)
        self._turns = NodeTurns(store, clock)
        self._tasks = TaskSet("the sign-ins of all nodes")

    async def start(self) -> None:
        """Have what the others have, and renew only in turn from now on. Raises StateError kinds, OSError."""
        for ident in {**await self._records.all(), **self._vault.list_all()}:
            await self.reread(ident)
        self._vault.span = self.span
        self._tasks.start(self._look())

    async def close(self) -> None:
        await self._tasks.close()

    async def reread(self, ident: str) -> None:
        """Make ours and theirs the same. Raises OSError."""
        async with self.span(ident, self._clock):
            pass

    @asynccontextmanager
    async def span(self, ident: str, clock: Clock) -> AsyncIterator[None]:
        """One at a time among all nodes (`vault.RenewalLock`); what the last of them got is here then, and what comes
        of it is there afterwards. Raises OSError."""
        try:
            async with self._turns.take(f"refresh/{ident}"), self._vault.lock(ident, clock):
                await self._meet(ident)
                yield
                await self._meet(ident)
        except StateError as exc:  # what is not told yet has no number: it is told when the store is there again
            raise OSError(errno.EIO, exc.message) from exc

    async def _look(self) -> None:
        while True:
            await self._clock.sleep(LOOK)
            for ident in [ident for ident, kept in self._vault.list_all().items() if not kept.number]:
                try:
                    await self.reread(ident)
                except OSError as exc:
                    log.warning("sign-in %s could not be told to the other nodes: %s", ident, exc)

    async def _meet(self, ident: str) -> None:
        ours, theirs = self._vault.list_all().get(ident), await self._records.get(ident)
        if ours is not None and not ours.number:
            number = (theirs.number if theirs is not None else 0) + 1
            ours = msgspec.structs.replace(ours, number=number, keyring=False)
            await self._records.put(ident, ours)
            self._vault.put(ident, ours)
        elif theirs is not None and (ours is None or ours.number != theirs.number):
            self._vault.put(ident, theirs)
