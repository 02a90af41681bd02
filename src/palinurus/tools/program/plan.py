"""update_plan: the steps of a larger piece of work. The plan lives in the transcript, as the result's details.

Knows no store: people see it in the progress line, the model in its history.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from palinurus.core.signature import pick_one
from palinurus.core.types.tool import ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.tools.define import define_tool

MARKS = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}


class PlanStep(msgspec.Struct, frozen=True):
    """One step, and how far it is."""

    step: Annotated[str, Meta(description="What is to be done", max_length=2000)]
    status: Annotated[str, pick_one("How far it is", *reversed(MARKS))]


def _told(steps: list[PlanStep]) -> str:
    done = sum(one.status == "completed" for one in steps)
    now = next((one.step for one in steps if one.status == "in_progress"), "")
    return f"{done} of {len(steps)} done" + (f", now: {now}" if now else "")


def _summary(args: dict[str, Any]) -> str:
    """For progress lines; the arguments are as the model wrote them."""
    plan = args.get("plan")
    steps = [one for one in plan if isinstance(one, dict)] if isinstance(plan, list) else []
    return _told([PlanStep(str(one.get("step", "")), str(one.get("status", ""))) for one in steps]) if steps else ""


@define_tool(
    "update_plan",
    effect="idempotent",
    summary=_summary,
    aliases={"plan": "steps todos", "step": "content title", "status": "state"},
)
async def update_plan(
    ctx: ToolContext,
    *,
    explanation: Annotated[str, "Why the plan changed, in a sentence"] = "",
    plan: Annotated[list[PlanStep], Meta(description="All steps, in order", min_length=1, max_length=100)],
) -> ToolOutput:
    """Set the plan of work that takes several steps: all steps, in order, each with its status. At most one step is
    in_progress. Call it again when a step is done or the plan changes."""
    steps = [PlanStep(one.step.strip(), one.status) for one in plan]
    if not all(one.step for one in steps):
        raise ToolFailure("a step of the plan has no text")
    going = [one.step for one in steps if one.status == "in_progress"]
    if len(going) > 1:
        raise ToolFailure(f"only one step can be in_progress; these are: {'; '.join(going)[:500]}")
    ctx.update("\n".join(f"{MARKS[one.status]} {one.step}" for one in steps))
    details: dict[str, Any] = {"status": "updated", "plan": msgspec.to_builtins(steps)}
    if explanation.strip():
        details["explanation"] = explanation.strip()
    return make_output(f"Plan updated: {_told(steps)}.", details)
