"""Budgets: hard limits under concurrency, one warning, days, families, and what a restart remembers."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.abort import Abort
from palinurus.config.sections.credentials import BudgetLimitSettings, BudgetSettings
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import AssistantMessage, TextBlock, UserMessage
from palinurus.core.types.model import (
    ModelEvent,
    ModelFailure,
    ModelRequest,
    ModelSpec,
    Prompt,
    StreamDone,
    StreamFailed,
    StreamNotice,
    TokenPrice,
)
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.accounts import CallAmount, SpendingAccount, estimate_dollars, estimate_tokens
from palinurus.providers.budget import BudgetReservation, Budgets
from palinurus.providers.meter import MeteredModel
from palinurus.store.port import SessionRow, UsageRow
from palinurus.testing.clock import FakeClock
from palinurus.testing.model import ScriptedModel, ScriptedTurn, StreamGate, fail, hold_at, say

PRICE = TokenPrice(1, 10)  # dollars for a million
MODEL = ModelSpec(ModelRef("p", "m"), "x", price=PRICE, max_tokens=100_000)
DAY = 86_400


class Ledger:
    def __init__(self, *spent: UsageRow) -> None:
        self.rows: dict[str, SessionRow] = {}
        self.entries = list(spent)
        self.reads = 0

    def add(self, key: str, ident: str, parent: str = "", started: int = 0) -> None:
        data = {"sessionId": ident, "sessionStartedAt": started, **({"spawnedBy": parent} if parent else {})}
        self.rows[key] = SessionRow(key, key.split(":")[1], ident, 0, msgspec.json.encode(data))

    async def session(self, key: str) -> SessionRow | None:
        return self.rows.get(key)

    async def sessions(self, agent: str | None = None) -> list[SessionRow]:
        return list(self.rows.values())

    async def list_usage(self, since: int, session: str | None = None) -> list[UsageRow]:
        self.reads += 1
        return [e for e in self.entries if e.at >= since]


def entry(at: int, usd: float | None, key: str = "agent:main:main", tokens: int = 0) -> UsageRow:
    return UsageRow("i", "r", key, key.split(":")[1], "p", "m", at, tokens, 0, 0, 0, usd)


def asked(session: str = "s", owner: str = "agent:main:main", model: ModelSpec = MODEL, **changes: Any) -> ModelRequest:
    return ModelRequest(model, Prompt(""), (UserMessage("x" * 400),), session=session, owner=owner, **changes)


def used(usd: float) -> TokenUsage:
    """Usage that costs so many dollars."""
    usage = TokenUsage(output=round(usd * 100_000))
    return msgspec.structs.replace(usage, cost=PRICE.compute_cost(usage))


def budgets(ledger: Ledger | None = None, clock: FakeClock | None = None, **limits: Any) -> Budgets:
    return Budgets(BudgetSettings(**limits), ledger or Ledger(), clock or FakeClock(), "UTC")


async def take(made: Budgets, *args: Any, **kwargs: Any) -> BudgetReservation:
    async with asyncio.timeout(60):
        hold = await made.reserve(asked(*args, **kwargs))
    assert isinstance(hold, BudgetReservation), hold
    return hold


async def refused(made: Budgets, *args: Any, **kwargs: Any) -> str:
    async with asyncio.timeout(60):
        got = await made.reserve(asked(*args, **kwargs))
    assert isinstance(got, ModelFailure) and got.kind == "budget", got
    return got.message


def limit(soft: float | None = None, hard: float | None = None, **tokens: int) -> BudgetLimitSettings:
    return BudgetLimitSettings(soft, hard, tokens.get("soft_tokens"), tokens.get("hard_tokens"))


# --- one account ----------------------------------------------------------------------------------------------

CALLS = st.lists(
    st.tuples(st.floats(0.01, 5), st.floats(0, 20), st.floats(0, 1)).map(
        lambda t: (CallAmount(t[0], t[0] + t[1]), (t[0] + t[1]) * t[2])
    ),
    max_size=40,
)


@given(CALLS, st.floats(0, 30), st.randoms(use_true_random=False))
def test_however_calls_overlap_the_limit_is_overstepped_by_one_surprise_at_most(
    calls: list[tuple[CallAmount, float]], hard: float, chance: Any
) -> None:
    """Each call costs anything up to its most; its surprise is what it costs beyond what is usual."""
    account = SpendingAccount(hard=hard)
    under_way: list[tuple[CallAmount, float]] = []
    surprises = [0.0]
    waiting = list(calls)
    while waiting or under_way:
        if waiting and (not under_way or chance.random() < 0.6):
            amount, real = waiting.pop(0)
            answer = account.fits(amount)
            if answer == "wait":
                assert under_way, "nobody is left to wait for"
                waiting.insert(0, (amount, real))
            elif answer != "no":
                account.hold(amount)
                under_way.append((amount, real))
                continue
            else:
                continue
        amount, real = under_way.pop(chance.randrange(len(under_way)))
        account.settle(amount, real)
        surprises.append(max(0.0, real - amount.likely))
    assert account.spent <= hard + max(surprises) + 1e-6
    assert account.held == 0 and account.calls == 0


@given(st.lists(st.floats(0, 5), max_size=20), st.floats(0, 20))
def test_one_warning_and_only_when_it_is_due(amounts: list[float], soft: float) -> None:
    account = SpendingAccount(soft=soft)
    told = [account.add(amount) for amount in amounts]
    assert sum(told) == (1 if amounts and account.spent >= soft else 0)


# --- budgets --------------------------------------------------------------------------------------------------


async def test_without_limits_nothing_is_read_or_held() -> None:
    ledger = Ledger()
    made = budgets(ledger)
    assert not made.active and await made.reserve(asked()) is None and ledger.reads == 0
    assert made.settle(None, used(99)) == []


async def test_the_day_s_limit_stops_everything_and_says_which_key_to_change() -> None:
    made = budgets(day=limit(hard=2))
    assert made.settle(await take(made), used(1.999)) == []
    text = await refused(made)
    assert text.startswith("the budget for today does not allow another call: $2.00 of $2.00 (budgets.day.hardUsd); ")
    assert text.endswith("it begins anew at midnight")


async def test_a_new_day_begins_with_nothing_spent() -> None:
    clock = FakeClock()
    made = budgets(clock=clock, day=limit(hard=1))
    made.settle(await take(made), used(1))
    await refused(made)
    await clock.advance(DAY)
    await take(made)


async def test_tokens_are_a_limit_of_their_own() -> None:
    made = budgets(session=limit(hard_tokens=150_000))
    made.settle(await take(made), TokenUsage(100_000, 49_500, 500))
    text = await refused(made)
    assert "150,000 of 150,000 tokens (budgets.session.hardTokens); /new starts another" in text
    await take(made, "another session")


async def test_agents_have_their_own_and_one_may_have_more() -> None:
    made = budgets(agent=limit(hard=1), agents={"rich": limit(hard=5)})
    for owner in ("agent:poor:main", "agent:rich:main"):
        made.settle(await take(made, owner, owner), used(2))
    assert "of agent poor for today" in await refused(made, "x", "agent:poor:main")
    await take(made, "y", "agent:rich:main")


async def test_one_warning_per_limit() -> None:
    made = budgets(day=limit(soft=1, hard=9), session=limit(soft_tokens=10))
    assert made.settle(await take(made), used(0.5)) == [
        "⚠️ Budget of this conversation: 50,000 spent, the warning was set at 10 tokens."
    ]
    assert made.settle(await take(made), used(0.6)) == [
        "⚠️ Budget for today: $1.10 spent, the warning was set at $1.00."
    ]
    assert made.settle(await take(made), used(0.6)) == []


async def test_a_call_that_may_be_too_dear_waits_for_those_under_way() -> None:
    made = budgets(day=limit(hard=1.5))  # one call may cost a dollar
    first = await take(made)
    second = asyncio.create_task(made.reserve(asked()))
    await asyncio.sleep(0)
    assert not second.done()
    made.settle(first, used(0.1))
    async with asyncio.timeout(60):
        assert isinstance(await second, BudgetReservation)


async def test_who_is_cancelled_while_waiting_holds_nothing() -> None:
    made = budgets(day=limit(hard=1.5))
    first = await take(made)
    second = asyncio.create_task(made.reserve(asked()))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    made.settle(first, TokenUsage())
    made.settle(await take(made), TokenUsage())
    assert made._pair(next(iter(first.scopes))).usd.held == 0


async def test_children_draw_from_their_parents_also_from_those_of_another_agent() -> None:
    ledger = Ledger()
    ledger.add("agent:main:main", "root")
    ledger.add("agent:work:subagent:1", "child", "agent:main:main")
    ledger.add("agent:work:subagent:1:subagent:2", "grandchild", "agent:work:subagent:1")
    made = budgets(ledger, session=limit(hard=2), agents={"main": limit(hard=50)}, agent=limit(hard=1.5))
    hold = await take(made, "grandchild", "agent:work:subagent:1:subagent:2")
    made.settle(hold, used(1.495))
    assert "of this conversation" not in await refused(made, "child", "agent:work:subagent:1")
    root = await take(made, "root", "agent:main:main")
    made.settle(root, used(0.497))
    assert "$1.99 of $2.00 (budgets.session.hardUsd)" in await refused(made, "root", "agent:main:main")


async def test_a_family_that_is_a_ring_is_walked_once() -> None:
    ledger = Ledger()
    ledger.add("agent:a:subagent:1", "one", "agent:a:subagent:2")
    ledger.add("agent:a:subagent:2", "two", "agent:a:subagent:1")
    made = budgets(ledger, session=limit(hard=2))
    assert len([s for s in (await take(made, "one", "agent:a:subagent:1")).scopes if s.kind == "session"]) == 2


async def test_a_start_remembers_what_the_ledger_says() -> None:
    clock = FakeClock()
    now = clock.now()
    ledger = Ledger(
        entry(now - 3 * DAY * 1000, 7.0),  # another day, before the session began
        entry(now - DAY * 1000 - 1, 1.0),  # yesterday, in this session
        entry(now, 0.5),
        entry(now, None, tokens=1000),
        entry(now, 0.25, "agent:main:subagent:1"),
    )
    ledger.add("agent:main:main", "s", started=now - 2 * DAY * 1000)
    ledger.add("agent:main:subagent:1", "c", "agent:main:main", started=now)
    made = budgets(ledger, clock, day=limit(soft=0.5, hard=100), session=limit(hard=100))
    hold = await take(made)
    spent = {scope.kind: round(made._pair(scope).usd.spent, 2) for scope in hold.scopes}
    assert spent == {"day": 0.75, "agent": 0.75, "session": 1.75}
    assert made.settle(hold, used(0.1)) == []  # the person was warned before the restart
    await take(made)
    assert ledger.reads == 1


async def test_dollar_limits_do_not_stop_what_is_free_and_say_that_they_do_not_see_what_is_unpriced() -> None:
    made = budgets(day=limit(hard=1))
    made.settle(await take(made), used(1))
    await take(made, model=msgspec.structs.replace(MODEL, price=TokenPrice()))
    await refused(made, model=msgspec.structs.replace(MODEL, price=None))
    fresh = budgets(day=limit(hard=1))
    odd = msgspec.structs.replace(MODEL, price=None)
    (told,) = fresh.settle(await take(fresh, model=odd), TokenUsage(5, 5))
    assert "the price of p/m is not known" in told
    assert fresh.settle(await take(fresh, model=odd), TokenUsage(5, 5)) == []


def test_a_call_s_size() -> None:
    plain = asked()
    assert estimate_tokens(plain) == CallAmount(120 + 1000, 120 + 100_000)
    assert estimate_dollars(plain).most == pytest.approx((120 * 1 + 100_000 * 10) / 1e6)
    assert estimate_tokens(asked(max_tokens=50)).most == 170
    known = msgspec.structs.replace(
        plain,
        messages=(
            UserMessage("x"),
            AssistantMessage((TextBlock("y"),), usage=TokenUsage(5000, 10)),
            UserMessage("zzzz"),
        ),
    )
    assert estimate_tokens(known).likely == 5011 + 1000
    assert estimate_dollars(asked(model=msgspec.structs.replace(MODEL, price=None))) == CallAmount(0, 0)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.1, 4), st.integers(0, 2**16))
def test_many_sessions_at_once_stay_within_the_limit(costs: list[float], hard: float, seed: int) -> None:
    async def run() -> None:
        made = budgets(day=limit(hard=hard))
        surprises = [0.0]

        async def call(at: int, usd: float) -> None:
            hold = await made.reserve(asked(str(at)))
            if isinstance(hold, BudgetReservation):
                for _ in range((seed >> at) & 3):
                    await asyncio.sleep(0)
                made.settle(hold, used(usd))
                surprises.append(used(usd).cost.total - hold.usd.likely)  # type: ignore[union-attr]

        async with asyncio.timeout(60):
            await asyncio.gather(*(call(at, usd) for at, usd in enumerate(costs)))
        hold = made._pairs[next(iter(made._pairs))]
        assert hold.usd.spent <= hard + max(surprises) + 1e-6 and hold.usd.calls == 0

    asyncio.run(run())


# --- around a model -------------------------------------------------------------------------------------------


async def events(model: MeteredModel, request: ModelRequest, stop: Abort | None = None) -> list[ModelEvent]:
    return [event async for event in model.stream(request, stop or Abort())]


async def test_the_meter_prices_answers_failures_and_nothing_else() -> None:
    model = MeteredModel(ScriptedModel([say("hi"), fail("cut", after="x")]))
    done, cut = (await events(model, asked()))[-1], (await events(model, asked()))[-1]
    assert isinstance(done, StreamDone) and done.message.usage.cost is not None
    assert done.message.usage.cost.total == pytest.approx((10 * 1 + 5 * 10) / 1e6)
    assert isinstance(cut, StreamFailed) and cut.message.usage.cost is None
    unpriced = (await events(MeteredModel(ScriptedModel(["hi"])), asked(model=ModelSpec(ModelRef("p", "m"), "x"))))[-1]
    assert isinstance(unpriced, StreamDone) and unpriced.message.usage.cost is None


async def test_the_meter_refuses_before_the_model_is_asked_and_warns_before_the_end() -> None:
    script = ScriptedModel(
        [
            ScriptedTurn("one", usage=TokenUsage(0, 60_000)),
            ScriptedTurn("two", usage=TokenUsage(0, 39_999)),
            say("three"),
        ]
    )
    model = MeteredModel(script, budgets(day=limit(soft=0.5, hard=1)))
    first = await events(model, asked())
    assert isinstance(first[-2], StreamNotice) and "$0.60 spent" in first[-2].text and isinstance(first[-1], StreamDone)
    assert not any(isinstance(e, StreamNotice) for e in await events(model, asked()))
    (last,) = await events(model, asked())
    assert isinstance(last, StreamFailed) and last.failure.kind == "budget" and last.message.stopReason == "error"
    assert len(script.requests) == 2


async def test_a_stopped_or_abandoned_call_gives_its_reservation_back() -> None:
    gate = StreamGate()
    made = budgets(day=limit(hard=1.5))
    model = MeteredModel(ScriptedModel([hold_at(say("long"), gate), say("ok"), say("ok")]), made)
    stop = Abort()
    under_way = asyncio.create_task(events(model, asked(), stop))
    await gate.wait_reached()
    other = Abort()
    waiting = asyncio.create_task(events(model, asked(), other))
    await asyncio.sleep(0)
    other.set("user")
    (refused_,) = await waiting
    assert isinstance(refused_, StreamFailed) and refused_.failure.kind == "aborted"
    stop.set("user")
    assert isinstance((await under_way)[-1], StreamFailed)
    stream = model.stream(asked(), Abort())
    await anext(stream)
    await stream.aclose()
    assert all(pair.usd.held == 0 and pair.usd.calls == 0 for pair in made._pairs.values())
