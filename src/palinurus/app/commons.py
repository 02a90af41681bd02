"""What all nodes of a fleet have in common besides their state: rules for commands, keys that rest; and who takes up
what a node that is gone had begun."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, MutableMapping

from palinurus import late
from palinurus.clock import Clock
from palinurus.config.sections.approvals import APPROVALS_FILE
from palinurus.errors import StateError
from palinurus.providers.backoff import KeyHealth
from palinurus.providers.rotation import KeyRotation
from palinurus.providers.signin.vault import SignInVault
from palinurus.services.subagents.control import SubagentControl
from palinurus.store.port import Store
from palinurus.store.records import Records
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

LIFE = "life/"  # granted to each node under its name
RESTS, SIGN_INS = "key-rest", "sign-in"  # kinds of records

Rereads = MutableMapping[str, Callable[[str], Awaitable[None]]]


def make_heir(store: Store, subagents: SubagentControl) -> Callable[[str], Awaitable[None]]:
    """Takes up what a node that is gone had begun, if no other node does."""

    async def inherit(node: str) -> None:
        try:
            if await store.grant(f"heir/{node}"):
                await subagents.take_over()
        except StateError as exc:  # we go, too: the next who hears of it, or starts, does it
            log.warning("what node %s had begun is not taken up here: %s", node, exc.message)

    return inherit


class FleetCommons:
    """Made where there are other nodes."""

    def __init__(self, store: Store, clock: Clock, home: str, vault: SignInVault) -> None:
        self._store = store
        self._rules = late.load_part("shared-rules")(store, clock, os.path.join(home, APPROVALS_FILE))
        self._signins = late.load_part("shared-signins")(store, clock, vault)
        self._tasks = TaskSet("telling other nodes of a key that rests")

    async def start(self, keys: KeyRotation | None, rereads: Rereads) -> None:
        """Have what the others have, and hear of it from now on. Raises StateError kinds."""
        rereads["rules"] = self._rules.reread
        await self._rules.start()
        rereads[SIGN_INS] = self._signins.reread
        try:
            await self._signins.start()
        except OSError as exc:
            log.warning("sign-ins are not those of the other nodes yet: %s", exc)
        if keys is not None:
            await self._share_rests(keys, rereads)

    async def _share_rests(self, keys: KeyRotation, rereads: Rereads) -> None:
        """Best effort: who has not heard yet asks once too early."""
        rests = Records(self._store, RESTS, KeyHealth)

        async def tell(ident: str, health: KeyHealth) -> None:
            try:
                await rests.put(ident, health)
            except StateError as exc:
                log.warning("other nodes do not know that key %s rests: %s", ident, exc.message)

        async def reread(ident: str) -> None:
            if (health := await rests.get(ident)) is not None:
                keys.hear(ident, health)

        for ident, health in (await rests.all()).items():
            keys.hear(ident, health)
        keys.tell = lambda ident, health: self._tasks.start(tell(ident, health))
        rereads[RESTS] = reread

    async def close(self) -> None:
        await self._tasks.close()
        await self._rules.close()
        await self._signins.close()
