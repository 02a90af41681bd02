"""update_plan."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.core.stream.progress import write_tool_line
from palinurus.tools.program.plan import update_plan

STEPS = [
    {"step": "look", "status": "completed"},
    {"step": "mend", "status": "in_progress"},
    {"step": "test", "status": "pending"},
]


async def test_the_plan_is_shown_and_kept(do: Any, ctx: Any) -> None:
    result = await do("update_plan", plan=STEPS, explanation="found it")
    assert result.text == "Plan updated: 1 of 3 done, now: mend."
    assert result.details == {"status": "updated", "plan": STEPS, "explanation": "found it"}
    assert ctx.updates == ["[x] look\n[>] mend\n[ ] test"]


async def test_only_one_step_at_a_time(do: Any, ctx: Any) -> None:
    result = await do("update_plan", plan=[{"step": n, "status": "in_progress"} for n in "ab"])
    assert result.isError and "only one step can be in_progress; these are: a; b" in result.text and not ctx.updates


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ([], "at least 1 items"),
        ([{"step": " ", "status": "pending"}], "has no text"),
        ([{"step": "a"}], "missing required argument: status"),
        ([{"step": "a", "status": "soon"}], "expected one of pending, in_progress, completed"),
    ],
)
async def test_what_is_no_plan(do: Any, plan: Any, said: str) -> None:
    result = await do("update_plan", plan=plan)
    assert result.isError and said in result.text


def test_the_progress_line() -> None:
    assert update_plan.summary is not None
    told = update_plan.summary({"plan": STEPS})
    assert write_tool_line("update_plan", {"plan": STEPS}, told) == "🗺️ Update Plan: 1 of 3 done, now: mend"
    assert [update_plan.summary(args) for args in ({}, {"plan": "x"}, {"plan": [1]})] == ["", "", ""]
