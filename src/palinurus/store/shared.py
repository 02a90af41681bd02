"""What nodes that share one state need of its store besides messages: who does what alone, news, a quick line to each
other, one account of what all of them spend. On a store of one node most of it is nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Literal, Protocol

import msgspec

from palinurus.clock import Clock
from palinurus.store.news import NewsListener, NodeBus


class AccountLimit(msgspec.Struct, frozen=True, kw_only=True):
    """An account that a call falls under, in dollars and in tokens. `usd` and `tokens` are what the ledger says was
    spent, for an account that nobody has used yet."""

    name: str
    usd: float
    tokens: float
    hard_usd: float | None = None
    hard_tokens: float | None = None


class SpendingWish(msgspec.Struct, frozen=True):
    """Room for one call, wanted in each account: (what it usually takes, the most it can take)."""

    id: str
    accounts: tuple[AccountLimit, ...]
    usd: tuple[float, float]
    tokens: tuple[float, float]


class SpendingAnswer(msgspec.Struct, frozen=True):
    """`wait`: it depends on calls under way. `spent`: of each account (dollars, tokens); `full`: the one that has no
    room."""

    verdict: Literal["yes", "wait", "no"]
    spent: tuple[tuple[float, float], ...]
    full: int = -1


class SharedBytes(Protocol):
    """Bytes that other nodes may need, by a name that is used once. Old ones go with `prune`."""

    async def put_blob(self, name: str, data: bytes) -> None:
        """Nothing is done where there are no other nodes. Raises StateError kinds."""
        ...

    async def get_blob(self, name: str) -> bytes | None: ...


class SharedStore(SharedBytes, Protocol):
    """Part of `store.port.Store`."""

    @property
    def node(self) -> str:
        """What this node is called; "": it is alone."""
        ...

    async def list_nodes(self) -> list[str]:
        """Those that are there now, this one too; none on a store of one."""
        ...

    async def grant(self, name: str, *, alone: bool = False) -> bool:
        """May this node do what `name` names, alone of all? It holds until `close`; asking again changes nothing.
        `alone`: only where no other node is."""
        ...

    async def give_up(self, name: str) -> None:
        """This node does no more what was granted to it; others hear that it is free."""
        ...

    async def confirm(self) -> None:
        """Before something that cannot be taken back: return when what this node runs is certainly its own still, which
        is at once where it is alone. Raises StateBroken if others have taken over."""
        ...

    def watch(self, listener: NewsListener) -> Callable[[], None]:
        """Hear of what other nodes change (`store/news.py`), on the loop. Returns the function that ends it."""
        ...

    async def open_bus(self) -> NodeBus | None:
        """What nodes tell each other while it happens; None: this store has no other nodes."""
        ...

    async def reserve(self, wish: SpendingWish) -> SpendingAnswer | None:
        """Keep room for a call in every account, or in none. What a node that is gone kept is free. None: no other
        node spends anything."""
        ...

    def release(self, ident: str, accounts: Sequence[str], usd: float, tokens: float) -> None:
        """The call has ended and took this. Nobody waits for it; it is applied in its place among the changes."""
        ...


AGAIN = 0.25  # seconds between two looks whether another node is done


class NodeTurns:
    """What only one task of all nodes may do at a time, one after the other: a sign-in is renewed with a token that
    holds once. Who dies meanwhile has its turn no longer than its lease."""

    def __init__(self, store: SharedStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._here: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def take(self, name: str) -> AsyncIterator[None]:
        """Wait for it. Whoever has it reads first what it is about to change: another may have done it meanwhile.
        Raises StateError kinds."""
        granted = f"turn/{name}"
        async with self._here.setdefault(name, asyncio.Lock()):
            while not await self._store.grant(granted):
                await self._clock.sleep(AGAIN)
            try:
                await self._store.confirm()
                yield
            finally:
                await asyncio.shield(self._store.give_up(granted))
