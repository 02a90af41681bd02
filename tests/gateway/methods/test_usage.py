"""Usage from the ledger."""

from __future__ import annotations

from pathlib import Path

from gateway.whole import KEY, place
from palinurus.core.types.usage import TokenUsage
from palinurus.testing.model import ScriptedModel, ScriptedTurn


def turn(text: str, read: int) -> ScriptedTurn:
    return ScriptedTurn(text=text, usage=TokenUsage(input=10, output=5, cacheRead=read, totalTokens=15 + read))


async def test_sums_by_day_session_model_and_time(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([turn("one", 0), turn("two", 100)])) as here:
        await here.say("a", "k1")
        await here.say("b", "k2")
        cost = await here.call("usage.cost", days=7, somethingNew=True)
        usage = await here.call("sessions.usage", range="7d")
        other = await here.call("sessions.usage", key="nobody")
        series = await here.call("sessions.usage.timeseries", key="main")
        logs = await here.call("sessions.usage.logs", key="main")
        past = await here.call("usage.cost", startDate="2020-01-01", endDate="2020-01-31", mode="utc")
        bad = await here.refused("usage.cost", startDate="soon")
    sums = {"input": 20, "output": 10, "cacheRead": 100, "cacheWrite": 0, "totalTokens": 130}
    assert cost["totals"].items() >= sums.items() and cost["days"] == 7 and len(cost["daily"]) == 1
    # The fake model has no price: that is said, not taken for free.
    assert cost["totals"]["missingCostEntries"] == 2
    (row,) = usage["sessions"]
    assert row["key"] == KEY and row["usage"]["totalTokens"] == 130
    assert usage["aggregates"]["byModel"][0]["model"] == "m" and usage["aggregates"]["byModel"][0]["count"] == 2
    assert other["sessions"] == [] and past["daily"] == [] and past["days"] == 31
    assert [p["cumulativeTokens"] for p in series["points"]] == [15, 130]
    assert [line["role"] for line in logs["logs"]] == ["user", "assistant"] * 2
    assert bad.message.startswith("invalid date: soon")


async def test_the_rows_that_cost_most_are_left_by_a_limit_and_all_are_counted(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([turn("one", 500), turn("two", 0)])) as here:
        await here.say("a", "k1")
        await here.say("b", "k2", "agent:main:openai:mine")
        usage = await here.call("sessions.usage", range="7d", limit=1, order="totalTokens")
    assert [row["key"] for row in usage["sessions"]] == [KEY] and usage["aggregates"]["sessions"] == 2
    assert {row["channel"]: row["totals"]["totalTokens"] for row in usage["aggregates"]["byChannel"]} == {
        "web": 515,
        "api": 15,
    }


async def test_an_offset_that_no_place_has_is_the_gateways_own(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        own = await here.call("sessions.usage", mode="specific", utcOffset="")
        far = await here.call("sessions.usage", mode="specific", utcOffset="9" * 30)
    assert (far["startDate"], far["endDate"]) == (own["startDate"], own["endDate"])
