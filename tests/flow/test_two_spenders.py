"""What two nodes spend together stays within one budget."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from flow.test_two_nodes import nobody, two, until
from palinurus.config.sections.credentials import BudgetSettings
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.usage import TokenUsage
from palinurus.providers import budget
from palinurus.providers.budget import BudgetReservation, Budgets
from providers.test_budget import asked, limit, refused, take, used


@pytest.fixture(autouse=True)
def _server(monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    monkeypatch.setenv("FLEET", server)


@asynccontextmanager
async def spenders(home: Path, **limits: object) -> AsyncIterator[tuple[Budgets, Budgets]]:
    async with two(home, nobody(), nobody(), slow="fleet") as apps:
        a, b = (Budgets(BudgetSettings(**limits), app.store, app.clock, "UTC", shared=app.store) for app in apps)  # type: ignore[arg-type]
        yield a, b


async def test_the_limit_is_overstepped_by_one_call_of_each_node_at_most(tmp_path: Path) -> None:
    """30 calls at a time on each, each dearer than usual: the day's 5 dollars are not spent twice."""
    spent = 0.0

    async def call(node: Budgets) -> None:
        nonlocal spent
        hold = await node.reserve(asked(max_tokens=20_000))
        if isinstance(hold, ModelFailure):
            return
        await asyncio.sleep(0.01)
        spent += 0.2
        node.settle(hold, used(0.2))

    async with spenders(tmp_path / "h", day=limit(hard=5.0)) as nodes:
        async with asyncio.timeout(120):
            await asyncio.gather(*(call(node) for node in nodes for _ in range(30)))
        assert 4.5 <= spent <= 5.4
        for node in nodes:
            assert "$" in await refused(node)


async def settle(node: Budgets, hold: BudgetReservation, usd: float) -> list[str]:
    """The call has ended, and all nodes can know."""
    told = node.settle(hold, used(usd))
    await node._shared.put_record("x", "y", b"1")  # type: ignore[union-attr]  # after it, in the same line
    return told


async def test_what_one_node_spent_the_other_knows(tmp_path: Path) -> None:
    async with spenders(tmp_path / "h", day=limit(hard=2.0, soft=1.5)) as (a, b):
        assert await settle(a, await take(a), 1.0) == []
        hold = await take(b, max_tokens=1000)
        assert ["$1.60 spent" in line for line in await settle(b, hold, 0.6)] == [True]  # and so do its people
        hold = await take(a, max_tokens=1000)
        assert await settle(a, hold, 0.5) == []  # they were told
        assert "$2.10 of $2.00" in await refused(b)


async def test_a_call_waits_for_one_of_the_other_node_and_what_it_gave_up_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "AGAIN", 0.05)
    async with spenders(tmp_path / "h", day=limit(hard=1.0)) as (a, b):
        hold = await take(a)  # as dear as a dollar: there is no room beside it
        waiting = asyncio.ensure_future(b.reserve(asked()))
        stopped = asyncio.ensure_future(b.reserve(asked()))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        stopped.cancel()
        a.settle(hold, TokenUsage())
        await until(waiting.done)
        assert b.settle(await waiting, TokenUsage()) == []  # type: ignore[arg-type]
        await take(a)
