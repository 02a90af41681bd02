"""How things that are no words of a person or the agent are told: failures with what to do, plans, results of tools
that are made for models. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.cli.render import strip_controls

DIFF_STYLES = {"+": "$success", "-": "$error", "@": "$primary", "*": "bold"}
AGAIN = "/retry asks again, /why tells more"
# What helps, by the kind of a failure (core.types.model.FailureKind).
FIXES: Mapping[str, str] = {
    "auth": "the key was refused: `pal models add PROVIDER` sets another, Ctrl-L chooses another model",
    "billing": "the account has no credit: top it up, or Ctrl-L chooses another model",
    "rate_limit": "too many requests: wait a little; `pal models fallbacks` names who answers meanwhile",
    "overloaded": "the provider is busy: wait a little, or Ctrl-L chooses another model",
    "network": "nobody answers there: `pal doctor` looks at the connection",
    "cut": "the answer broke off on its way",
    "timeout": "it took too long: a longer time is `agents.defaults.timeoutSeconds`",
    "overflow": "the conversation does not fit: /compact makes it shorter, /new begins another",
    "not_found": "there is no such model: Ctrl-L lists those there are",
    "config": "`pal setup` connects a model",
    "budget": "your own limit is reached: `pal config explain budgets`",
}


def tell_failure(message: str, kind: str = "") -> str:
    """What went wrong, and what to do."""
    fix = FIXES.get(kind, "")
    return f"{message}\n" + (f"fix: {fix}; {AGAIN}" if fix else AGAIN)


class ShownStep(msgspec.Struct, frozen=True):
    """A step of a plan: pending, in_progress or completed."""

    step: str
    status: str


MARKS = {"completed": "✔", "in_progress": "▸"}
STYLES = {"completed": "$success", "in_progress": "bold $accent"}


def read_plan(name: str, args: Any) -> tuple[ShownStep, ...]:
    """The steps that a call of update_plan sets; () for other calls."""
    plan = args.get("plan") if name == "update_plan" and isinstance(args, dict) else None
    rows = [row for row in plan if isinstance(row, dict)] if isinstance(plan, list) else []
    return tuple(ShownStep(strip_controls(str(row.get("step") or "")), str(row.get("status") or "")) for row in rows)


def tidy_result(name: str, text: str) -> str:
    """What a tool for models says, for people: of a started sub-agent that it was started."""
    if name != "sessions_spawn" or not text.lstrip().startswith("{"):
        return text
    try:
        told = json.loads(text)
    except ValueError:
        return text
    if not isinstance(told, dict) or told.get("status") not in ("accepted", "ok"):
        return text
    return "started; F2 shows it, its result comes here"
