"""Sub-agents as lists and lines for models and people; and which one somebody means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palinurus.inbox.children import words
from palinurus.inbox.children.record import SubagentRecord

RECENT = 30  # minutes for which finished ones are shown


def describe_status(child: SubagentRecord) -> str:
    """One word for where it stands."""
    if child.outcome is not None and not child.active:
        return {"ok": "done", "error": "failed"}.get(child.outcome, child.outcome)
    if child.killed:
        return "stopping"
    return "running" if child.started else "queued"


def to_list_row(number: int, child: SubagentRecord, cost: words.SubagentCost, now: int) -> dict[str, Any]:
    """One line of the list, for models."""
    shown: dict[str, Any] = {
        "index": number,
        "runId": child.id,
        "sessionKey": child.session,
        "label": child.name,
        "status": describe_status(child),
        "model": child.model,
        "runtime": words.time_run(child, now),
        "runtimeMs": max(0, (child.ended or now) - child.started) if child.started else 0,
        "totalTokens": cost.input + cost.output,
        "startedAt": child.started,
    }
    if child.ended:
        shown["endedAt"] = child.ended
    if child.note:
        shown["error"] = child.note
    return shown


def format_list_row(shown: dict[str, Any]) -> str:
    """The same, for people."""
    tokens = words.show_count(shown["totalTokens"])
    head = f"{shown['index']}. {shown['label']} ({shown['status']}, {shown['runtime']}, {tokens} tokens, "
    return f"{head}{shown['model']}) {shown['runId'][:8]}"


def is_recent(child: SubagentRecord, now: int, minutes: int) -> bool:
    """At work, or ended not long ago."""
    return child.active or now - child.ended <= minutes * 60_000


def find_subagents(
    target: str, listed: Sequence[SubagentRecord], below: Sequence[SubagentRecord]
) -> list[SubagentRecord] | str:
    """Those that `target` means: a number of the list, `all`, `last`, a label, a run id or its beginning, a session
    key. Or why none."""
    low = target.strip().lower()
    if not low:
        return "say which sub-agent"
    if low in ("all", "*"):
        return [c for c in listed if c.active] or "no sub-agent is at work"
    if low == "last":
        return list(listed[-1:]) or "there are no sub-agents"
    number = low.removeprefix("#")
    if number.isascii() and number.isdigit() and len(number) < 5 and 0 < int(number) <= len(listed):
        return [listed[int(number) - 1]]
    for fits in (
        [c for c in below if low in (c.id, c.session.lower())],
        [c for c in below if c.label.lower() == low],
        [c for c in below if c.label and c.label.lower().startswith(low)],
        [c for c in below if len(low) >= 4 and c.id.startswith(low)],
    ):
        if len(fits) == 1:
            return fits
        if fits:
            return f"{target[:60]!r} means {len(fits)} sub-agents; say which by run id"
    return f"no sub-agent {target[:60]!r} here"
