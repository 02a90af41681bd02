"""update_plan: the steps of a larger piece of work. The plan lives in the transcript, as the result's details.

Knows no store: people see it in the progress line, the model in its history.
"""

from __future__ import annotations

from typing import Any

from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output

MARKS = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}


async def _update(ctx: ToolContext, plan: list[dict[str, str]], explanation: str = "") -> ToolOutput:
    """Raises ToolFailure for a plan that cannot be one."""
    steps = [{"step": entry["step"].strip(), "status": entry["status"]} for entry in plan]
    if not all(entry["step"] for entry in steps):
        raise ToolFailure("a step of the plan has no text")
    going = [entry["step"] for entry in steps if entry["status"] == "in_progress"]
    if len(going) > 1:
        raise ToolFailure(f"only one step can be in_progress; these are: {'; '.join(going)[:500]}")
    ctx.update("\n".join(f"{MARKS[entry['status']]} {entry['step']}" for entry in steps))
    details: dict[str, Any] = {"status": "updated", "plan": steps}
    if explanation.strip():
        details["explanation"] = explanation.strip()
    return make_output(f"Plan updated: {_told(steps)}.", details)


def _told(steps: list[dict[str, str]]) -> str:
    done = sum(entry["status"] == "completed" for entry in steps)
    now = next((entry["step"] for entry in steps if entry["status"] == "in_progress"), "")
    return f"{done} of {len(steps)} done" + (f", now: {now}" if now else "")


def _summary(args: dict[str, Any]) -> str:
    """For progress lines; the arguments are as the model wrote them."""
    plan = args.get("plan")
    steps = [entry for entry in plan if isinstance(entry, dict)] if isinstance(plan, list) else []
    return _told([{"step": str(e.get("step", "")), "status": str(e.get("status", ""))} for e in steps]) if steps else ""


PLAN_TOOL = Tool(
    name="update_plan",
    description=(
        "Set the plan of work that takes several steps: all steps, in order, each with its status. At most one step is "
        "in_progress. Call it again when a step is done or the plan changes."
    ),
    parameters={
        "type": "object",
        "properties": {
            "explanation": {"type": "string", "description": "Why the plan changed, in a sentence"},
            "plan": {
                "type": "array",
                "description": "All steps, in order",
                "minItems": 1,
                "maxItems": 100,
                "items": {
                    "type": "object",
                    "properties": {
                        "step": {"type": "string", "description": "What is to be done", "maxLength": 2000},
                        "status": {"type": "string", "enum": list(reversed(MARKS)), "description": "How far it is"},
                    },
                    "required": ["step", "status"],
                },
            },
        },
        "required": ["plan"],
    },
    run=_update,
    effect="idempotent",
    summary=_summary,
    aliases={"steps": "plan", "todos": "plan", "content": "step", "title": "step", "state": "status"},
)
