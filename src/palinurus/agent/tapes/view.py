"""Tapes and verdicts for people and pages: the steps of a run, two runs side by side, what a replay came to. Pure."""

from __future__ import annotations

import textwrap
from itertools import zip_longest
from typing import Any

import msgspec

from palinurus.agent.tapes.compare import TapeDifference, TapeVerdict, compare_tapes, list_requests
from palinurus.agent.tapes.tape import Tape, TapeStep
from palinurus.core.types.messages import ToolResult, UserMessage
from palinurus.core.types.model import ModelEvent, StreamDone, StreamFailed

SHOWN = 2000  # characters of a text on the page
MORE = 4  # further differences that are named


def describe_tape(tape: Tape) -> dict[str, Any]:
    """One run: what was asked, and its steps. A step is a model call with the tool calls it led to."""
    head, end = tape.head, tape.end
    return {
        "item": head.item,
        "run": head.run,
        "sessionKey": head.claim.session,
        "at": head.at,
        "asked": head.typed[:SHOWN],
        "branch": head.branch or None,
        "outcome": end.outcome,
        "note": end.note[:SHOWN],
        "replies": [str(reply.get("text", ""))[:SHOWN] for reply in end.replies],
        "steps": _list_steps(tape),
    }


def _list_steps(tape: Tape) -> list[dict[str, Any]]:
    requests = dict(zip((id(s) for s in tape.steps if s.kind == "model"), list_requests(tape), strict=True))
    steps: list[dict[str, Any]] = []
    calls: dict[int, dict[str, Any]] = {}
    for step in tape.steps:
        here = steps[-1] if steps else None
        if step.kind == "model" and step.name == "run":
            asked = requests[id(step)]
            at = next(iter(step.read.get("now", ())), None)
            number, answer = len(steps) + 1, _describe_answer(step)
            answered = answer.pop("model")  # of a branch's first steps: who was asked then
            model = answered if number < tape.head.start and answered else asked.model
            told = {"number": number, "at": at, "model": model, "level": asked.level}
            steps.append({**told, "messages": asked.count, **answer, "calls": [], "steered": []})
        elif step.kind == "call" and here is not None:
            calls[step.lane] = {"name": step.name, "args": step.asked, "result": None, "isError": False}
            here["calls"].append(calls[step.lane])
        elif step.kind == "tool" and step.lane in calls:
            result = msgspec.convert(step.given, ToolResult)
            calls[step.lane] |= {"result": result.text[:SHOWN], "isError": result.isError}
        elif step.kind == "steer" and here is not None:
            said = msgspec.convert(step.given, list[tuple[UserMessage, str]])
            here["steered"] += [message.text[:SHOWN] for message, _ in said]
        elif step.kind == "abort" and here is not None:
            here["stopped"] = step.name
    return steps


def _describe_answer(step: TapeStep) -> dict[str, Any]:
    events = msgspec.convert(step.given, list[ModelEvent])
    end = next((e for e in reversed(events) if isinstance(e, StreamDone | StreamFailed)), None)
    made: dict[str, Any] = {"text": "", "failure": None, "model": ""}
    if end is not None:
        made |= {"text": end.message.text[:SHOWN], "model": f"{end.message.provider}/{end.message.model}"}
    if isinstance(end, StreamFailed):
        made["failure"] = f"{end.failure.kind}: {end.failure.message}"
    if step.cut:
        made["stopped"] = step.cut
    return made


def format_verdict(verdict: TapeVerdict) -> str:
    """What a replay came to, in words."""
    counted = ", ".join(f"{a} of {b} {name}" for name, (a, b) in verdict.counts.items() if b)
    lines = [f"{verdict.item}: {_count(verdict.steps, 'step')}; equal: {counted}"]
    lines += [f"  refused: {one}" for one in verdict.tried]
    if verdict.same:
        return "\n".join([*lines, "  same: it came out byte for byte as it was"])
    first, *rest = verdict.differences
    lines += ["  differs first at " + format_difference(first)]
    lines += [f"    {word}: {text}" for word, text in (("was", first.recorded), ("now", first.now)) if text]
    lines += [f"  then at {format_difference(one)}" for one in rest[:MORE]]
    lines += [f"  and {len(rest) - MORE} more (--json)"] if len(rest) > MORE else []
    return "\n".join(lines)


def format_difference(found: TapeDifference) -> str:
    """Where, and why."""
    where = f"step {found.step}, {found.where}" if found.step else found.where
    return f"{where}: {found.why}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def describe_diff(old: Tape, new: Tape) -> dict[str, Any]:
    """Two runs side by side, step by step, and where they part."""
    verdict = compare_tapes(old, new)
    left, right = describe_tape(old), describe_tape(new)
    pairs = zip_longest(left.pop("steps"), right.pop("steps"))
    told = msgspec.to_builtins(verdict)
    rows = [{"a": a, "b": b, "same": _strip(a) == _strip(b)} for a, b in pairs]
    return {"a": left, "b": right, "same": verdict.same, "differences": told.get("differences", []), "steps": rows}


def _strip(step: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if step is None else {name: value for name, value in step.items() if name != "at"}


def format_diff(told: dict[str, Any], width: int) -> str:
    """The same for a terminal: two columns, what differs marked."""
    side = max(20, (width - 5) // 2)
    lines = [*_join(_name(told["a"]), _name(told["b"]), side, same=True), "─" * (2 * side + 3)]
    for row in told["steps"]:
        lines += _join(_write_step(row["a"]), _write_step(row["b"]), side, same=row["same"])
    left, right = (f"{one['outcome']}: {one['note']}" for one in (told["a"], told["b"]))
    lines += _join(left, right, side, same=left == right)
    found = msgspec.convert(told["differences"], list[TapeDifference])
    return "\n".join([*lines, "", *(f"≠ {format_difference(one)}" for one in found)] if found else [*lines, "", "same"])


def _name(run: dict[str, Any]) -> str:
    return f"{run['item']}{' (' + run['branch'] + ')' if run['branch'] else ''}\n{run['asked']}"


def _write_step(step: dict[str, Any] | None) -> str:
    if step is None:
        return ""
    lines = [f"{step['number']}. {step['model']} ({step['level']})", step["failure"] or step["text"]]
    for call in step["calls"]:
        lines.append(f"→ {call['name']} {msgspec.json.encode(call['args']).decode()}")
        lines.append(f"{'✗' if call['isError'] else '←'} {(call['result'] or '')[:300]}")
    return "\n".join(line for line in lines if line)


def _join(left: str, right: str, side: int, *, same: bool) -> list[str]:
    pairs = list(zip_longest(*(_wrap(text, side) for text in (left, right)), fillvalue=""))
    return [f"{a:<{side}} {'│' if same or a == b else '≠'} {b}".rstrip() for a, b in pairs]


def _wrap(text: str, side: int) -> list[str]:
    return [piece for line in text.splitlines() for piece in textwrap.wrap(line, side) or [""]]
