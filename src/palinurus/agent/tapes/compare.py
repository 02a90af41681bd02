"""Where two tapes part, and why: requests, tool calls, the transcript, events and replies, in the order of the run.
Pure. The one judge of replays and of `pal diff`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from palinurus.agent.tapes.tape import Tape, TapedRequest, TapeStep, fill_sections

SHOWN = 160  # characters of each side
MANY = 4  # sections of a prompt that differ: it is another one


class TapeDifference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One. `step` is the model call it belongs to, counted from 1; 0: the end."""

    step: int
    where: str
    why: str
    recorded: str = ""
    now: str = ""


class TapeVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a replay came to. `counts`: of each kind of thing how many are equal, and how many there were."""

    item: str
    same: bool
    steps: int
    counts: dict[str, tuple[int, int]]
    differences: tuple[TapeDifference, ...] = ()
    tried: tuple[str, ...] = ()  # ways out that were refused


def compare_tapes(old: Tape, new: Tape, tried: Sequence[str] = ()) -> TapeVerdict:
    """Every difference, the first one first."""
    found = _compare_files(old, new)
    counts = {
        "requests": _compare_requests(old, new, found),
        "tool calls": _compare_calls(old, new, found),
        "lines": _compare_rows("transcript line", old.end.lines, new.end.lines, found),
        "events": _compare_rows("event", _list_events(old), _list_events(new, like=old), found),
        "replies": _compare_rows("reply", old.end.replies, new.end.replies, found, name=_name_reply),
    }
    if (old.end.outcome, old.end.note) != (new.end.outcome, new.end.note):
        told = (f"{end.outcome}: {end.note}" for end in (old.end, new.end))
        found.append(_differ(0, "outcome", "the run ended otherwise", told))
    order = sorted(found, key=lambda one: one.step or 1 << 30)  # stable: requests before what came of them
    return TapeVerdict(
        old.head.item, not found, len(old.calls), counts=counts, differences=tuple(order), tried=tuple(tried)
    )


def _compare_files(old: Tape, new: Tape) -> list[TapeDifference]:
    """The workspace's files and skills that the prompt was made of, by name."""
    left, right = (_list_supply(tape) for tape in (old, new))
    found = []
    for name in dict.fromkeys((*left, *right)) if left and right else ():
        if left.get(name) != right.get(name):
            why = "is new" if name not in left else "is gone" if name not in right else "changed"
            found.append(_differ(1, "prompt", f"{name} {why}", (left.get(name, ""), right.get(name, ""))))
    return found


def _list_supply(tape: Tape) -> dict[str, str]:
    given = next((s.given for s in tape.steps if s.kind == "value" and s.name == "supply"), None) or {}
    files = {str(one.get("path") or one.get("name")): str(one.get("text", "")) for one in given.get("files", ())}
    return files | {f"skill {one.get('name')}": _json(one) for one in given.get("skills", ())}


def _differ(step: int, where: str, why: str, sides: Iterable[object]) -> TapeDifference:
    left, right = _brief_pair(*(side if isinstance(side, str) else _json(side) for side in sides))
    return TapeDifference(step, where, why, recorded=left, now=right)


def _json(value: object) -> str:
    return "" if value is None else msgspec.json.encode(value, order="deterministic", enc_hook=str).decode()


def _brief_pair(old: str, new: str) -> tuple[str, str]:
    """Both sides from a little before the first difference on."""
    at = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(0, at - 30)
    return tuple(("…" if start else "") + t[start : start + SHOWN] + ("…" if len(t) > start + SHOWN else "")
                 for t in (old, new))  # type: ignore[return-value]  # fmt: skip


def list_requests(tape: Tape) -> list[TapedRequest]:
    """The requests of its model calls, whole."""
    return fill_sections(msgspec.convert(step.asked, TapedRequest) for step in _models(tape))


def _models(tape: Tape) -> list[TapeStep]:
    return [step for step in tape.steps if step.kind == "model"]


def _compare_requests(old: Tape, new: Tape, found: list[TapeDifference]) -> tuple[int, int]:
    before, now = list_requests(old), list_requests(new)
    same, numbers, redacted = 0, _number_calls(old), old.head.redacted or new.head.redacted
    start = max(old.head.start, new.head.start)
    for at, (a, b) in enumerate(zip(before, now, strict=False)):
        made = _compare_request(a, b, numbers[at], redacted=redacted) if numbers[at] >= start else []
        same += not made
        told = {_topic(one) for one in found}  # a prompt that is another in one step is so in all
        found += [one for one in made if _topic(one) not in told]
    for at in range(len(now), len(before)):
        found.append(TapeDifference(numbers[at], f"model call {at + 1}", "is not made any more"))
    for at in range(len(before), len(now)):
        found.append(TapeDifference(0, f"model call {at + 1}", "is not on the tape"))
    return same, len(before)


def _topic(found: TapeDifference) -> str:
    return found.where if found.where == "conversation" else found.why


def _number_calls(tape: Tape) -> list[int]:
    """For each model call the step it belongs to: calls aside (a summary) count with the step before them."""
    numbers, step = [], 0
    for call in _models(tape):
        step += call.name == "run"
        numbers.append(max(step, 1))
    return numbers


_PLAIN = ("model", "level", "fast", "max_tokens", "temperature", "tool_choice")


def _compare_request(old: TapedRequest, new: TapedRequest, step: int, *, redacted: bool) -> list[TapeDifference]:
    """Where credentials were blanked, hashes are of other words than those on the tape: texts are compared."""
    found = [
        _differ(step, "request", f"the {name.replace('_', ' ')} is another", (getattr(old, name), value))
        for name in _PLAIN
        if (value := getattr(new, name)) != getattr(old, name)
    ]
    texts = [{(g, n): text for g, n, text in one.sections or ()} for one in (old, new)]
    left, right = ({(p.group, p.name): p for p in one.pieces} for one in (old, new))
    parted = [key for key in dict.fromkeys((*left, *right)) if left.get(key) != right.get(key)]
    if len([key for key in parted if key[0] != "tool"]) > MANY:
        words = ("".join(text for _, _, text in one.sections or ()) for one in (old, new))
        found.append(_differ(step, "request", "the system prompt is another", words))
        parted = [key for key in parted if key[0] == "tool"]
    for key in parted:
        if redacted and key in left and texts[0].get(key) == texts[1].get(key):
            continue
        what = f"tool {key[1]}" if key[0] == "tool" else f"prompt section {key[1]}"
        why = "is new" if key not in left else "is gone" if key not in right else "changed"
        sides = [text.get(key, "") for text in texts]
        found.append(_differ(step, "request", f"{what} {why}", sides))
    if not found and list(left) != list(right):
        found.append(TapeDifference(step, "request", "tools or prompt sections stand in another order"))
    if old.count != new.count or (not redacted and (old.older, old.tail) != (new.older, new.tail)):
        pairs = zip(old.tail, new.tail, strict=False)
        which = next((a.name for a, b in pairs if a != b), f"{min(old.count, new.count) + 1}")
        sides = [f"{n} message{'' if n == 1 else 's'}" for n in (old.count, new.count)]
        found.append(_differ(step, "conversation", f"message {which} is another", sides))
    return found


def _compare_calls(old: Tape, new: Tape, found: list[TapeDifference]) -> tuple[int, int]:
    before, now = list_tool_calls(old), list_tool_calls(new)
    same = 0
    for at in range(max(len(before), len(now))):
        a, b = (calls[at] if at < len(calls) else None for calls in (before, now))
        if a is not None and b is not None and (a.name, a.asked) == (b.name, b.asked):
            same += 1
            continue
        name = (a or b or TapeStep("call")).name
        why = f"{name} is not called any more" if b is None else f"{name} is called, which it was not"
        if a is not None and b is not None:
            why = f"{b.name} is called in its place" if a.name != b.name else f"{name} is called with other arguments"
        step = _find_step(old, a) if a is not None else 0
        found.append(_differ(step, f"tool call {at + 1}", why, (a and a.asked, b and b.asked)))
    return same, len(before)


def list_tool_calls(tape: Tape) -> list[TapeStep]:
    """In the order in which they began."""
    return sorted((step for step in tape.steps if step.kind == "call"), key=lambda step: step.lane)


def _find_step(tape: Tape, call: TapeStep) -> int:
    count = 0
    for step in tape.steps:
        count += step.kind == "model" and step.name == "run"
        if step is call:
            break
    return count


def _list_events(tape: Tape, like: Tape | None = None) -> list[Any]:
    """Pieces of an answer are left out where they are not on the tape as they came."""
    redacted = tape.head.redacted or (like is not None and like.head.redacted)
    return [event for event in tape.end.events if not (redacted and event[0] == "message_update")]


def _compare_rows(
    what: str,
    old: Sequence[Any],
    new: Sequence[Any],
    found: list[TapeDifference],
    name: Callable[[Any], str] = lambda row: row[0] if not isinstance(row, str) else "",
) -> tuple[int, int]:
    """Only the first that differs is told: those after it follow from it."""
    same = sum(a == b for a, b in zip(old, new, strict=False))
    if same != len(old) or len(old) != len(new):
        at = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        a, b = (rows[at] if at < len(rows) else None for rows in (old, new))
        called = name(a if a is not None else b)
        why = "differs" if a is not None and b is not None else "is missing now" if b is None else "is not on the tape"
        found.append(_differ(0, f"{what} {at + 1}{f' ({called})' if called else ''}", why, (a, b)))
    return same, len(old)


def _name_reply(reply: Any) -> str:
    return str(reply.get("kind", "final"))
