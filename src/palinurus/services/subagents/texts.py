"""What sub-agents and those who started them are told. Text only; pure but for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from palinurus.core.policy.taint import OWN, Taint, is_from_outside
from palinurus.core.types.inbound import Inbound, Target, TurnOptions
from palinurus.core.untrusted import wrap_untrusted
from palinurus.services.subagents.registry import Outcome, SubagentRecord

# Sub-agents as lists and lines for models and people; and which one somebody means.

RECENT = 30  # minutes for which finished ones are shown


def describe_status(child: SubagentRecord) -> str:
    """One word for where it stands."""
    if child.outcome is not None and not child.active:
        return {"ok": "done", "error": "failed"}.get(child.outcome, child.outcome)
    if child.killed:
        return "stopping"
    return "running" if child.started else "queued"


def to_list_row(number: int, child: SubagentRecord, cost: SubagentCost, now: int) -> dict[str, Any]:
    """One line of the list, for models."""
    shown: dict[str, Any] = {
        "index": number,
        "runId": child.id,
        "sessionKey": child.session,
        "label": child.name,
        "status": describe_status(child),
        "model": child.model,
        "runtime": time_run(child, now),
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
    tokens = show_count(shown["totalTokens"])
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


CHANNEL = "subagent"
SKIP = "ANNOUNCE_SKIP"  # a child's whole answer: nobody is told
SHOWN = 32_000  # characters of a result
TASK = 2_000  # characters of the task in the prompt
CAP = 100  # messages of one session that may wait when a result comes

STATUS: dict[Outcome, str] = {
    "ok": "completed successfully",
    "error": "failed",
    "timeout": "timed out",
    "killed": "was killed",
    "stopped": "was stopped",
}
_AFTER = (
    "This is the program speaking, not a person. Use the result for what it was wanted for: go on, or tell the person "
    "in your own words what matters of it, without run ids and statistics. {rest} If there is nothing to do or to say "
    "now, answer NO_REPLY."
)


class SubagentCost(msgspec.Struct, frozen=True):
    """What a sub-agent used."""

    input: int = 0
    output: int = 0
    dollars: float | None = None


def write_system_prompt(child: SubagentRecord, may_start: bool) -> str:
    """Its part of the system prompt: the same for all its runs."""
    target = child.asker.target
    where = f", for somebody on {target.channel}" if target.channel and target.channel != CHANNEL else ""
    task = child.task if len(child.task) <= TASK else f"{child.task[:TASK]}…"
    orders = (
        "You may start sub-agents of your own with sessions_spawn; their results are pushed to you. Wait for them "
        "before you give your last answer."
        if may_start
        else "You cannot start sub-agents of your own."
    )
    return (
        "You are a sub-agent: another session started you for one task, and reads only your last answer.\n"
        f"- Started by: {child.parent}{where}\n"
        f"- Your session: {child.session}\n"
        + (f"- Label: {child.label}\n" if child.label else "")
        + f"- Task: {task}\n\n"
        "Do this task and nothing else. Nobody can answer questions: decide, and say what you assumed. Do not write to "
        "people. Commands that still run when you have given your last answer are ended. That answer is handed to the "
        f"session that started you: the result, what you did, what is open; short. {orders} If nothing is to be "
        f"reported, answer {SKIP}."
    )


def make_task_message(child: SubagentRecord, may_start: bool, now: int) -> Inbound:
    """The message that gives it its task, or, in a later round, what it is steered with."""
    if child.round:
        text = f"[Subagent Steering]\n{child.text}"
    else:
        text = f"[Subagent Task]\n{child.text}"
    return msgspec.structs.replace(
        child.asker,
        target=Target(CHANNEL, child.parent),
        event=f"{child.id}:{child.round}",
        text=text,
        at=now,
        kind="direct",
        session=child.session,
        agent=child.session.split(":")[1],
        options=make_options(write_system_prompt(child, may_start), "followup"),
        system=True,
        source=child.source,
        push=False,
    )


def make_options(system: str, queue: str) -> TurnOptions:
    """Of every message that has to do with a sub-agent. `system` is its part of the prompt; "" if it is no one's."""
    return TurnOptions(system=system, queue=queue, queue_drop="new", queue_cap=CAP)


def choose_source(taint: Taint) -> str:
    """The one origin that stands for all: one from outside, if there is any."""
    return next((one for one in taint if is_from_outside((one,))), next(iter(taint), ""))


def make_announcement(child: SubagentRecord, text: str, system: str, taint: Taint, now: int) -> Inbound:
    """The result as a message of the parent's session. Its event comes from the run: told twice, it is one message."""
    return msgspec.structs.replace(
        child.asker,
        event=f"child:{child.id}:{child.round}:{child.tells}",
        text=text,
        at=now,
        session=child.parent,
        agent=child.parent.split(":")[1],
        options=make_options(system, "steer"),
        system=True,
        source=choose_source(taint) or OWN,
    )


def write_report(child: SubagentRecord, result: str, cost: SubagentCost, left: int, boundary: str) -> str:
    """What the parent reads: how it ended (as the program saw it), the result, what it took."""
    status = STATUS[child.outcome or "error"] + (f": {child.note}" if child.note else "")
    shown = result.strip() or "(no output)"
    if len(shown) > SHOWN:
        shown = f"{shown[:SHOWN]}\n[{len(shown) - SHOWN:,} more characters; sessions_history shows them]"
    rest = (
        f"{left} other sub-agent{'s' if left != 1 else ''} of yours still run{'' if left != 1 else 's'}; "
        "if you need all of them for the answer, wait."
        if left
        else "No other sub-agent of yours is running."
    )
    return (
        f"System: sub-agent “{child.name}” {status}.\n\n"
        f"Result:\n{wrap_untrusted(shown, 'sub-agent', boundary)}\n\n"
        f"Stats: {format_stats(child, cost)} • session {child.session} • run {child.id}\n\n"
        f"{_AFTER.format(rest=rest)}"
    )


def format_stats(child: SubagentRecord, cost: SubagentCost) -> str:
    """`runtime 1m05s • tokens 1.2k (in 1k / out 200) • est $0.01`"""
    total = show_count(cost.input + cost.output)
    line = f"runtime {time_run(child)} • tokens {total} (in {show_count(cost.input)} / out {show_count(cost.output)})"
    return line if cost.dollars is None else f"{line} • est ${cost.dollars:.4f}"


def time_run(child: SubagentRecord, now: int = 0) -> str:
    """How long it ran, or has been running."""
    if not child.started:
        return "0s"
    seconds = max(0, (child.ended or now or child.started) - child.started) // 1000
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def show_count(tokens: int) -> str:
    """12345 -> 12.3k"""
    return f"{tokens / 1000:.1f}k".replace(".0k", "k") if tokens >= 1000 else str(tokens)
