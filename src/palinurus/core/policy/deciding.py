"""What decides about a call, and who gave it: the arguments that say where an effect goes or what it is done to. Pure.

After untrusted content a call passes unasked if the owner gave every deciding value (`given.py` says when), no address
in it came from elsewhere, and the owner's last message asks for that kind of effect (`intent.py`). What stays with the
owner and can be undone needs no more than to be asked for. A tool that declares nothing has all its arguments decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from palinurus.core.policy import described, given, spoken
from palinurus.core.policy.intent import asks_for, asks_for_pages
from palinurus.core.policy.taint import MAX_CHOICES, PAGES, get_source_kind, pair_results
from palinurus.core.types.approval import CallJudgement, CommandRule, DecidingValue
from palinurus.core.types.messages import AssistantMessage, Message, ToolResult, UserMessage
from palinurus.core.types.tool import Tool
from palinurus.patterns import compile_late

# Of our own tools, what decides; all arguments of the others.
BUILTIN: dict[str, tuple[str, ...]] = {"message": ("channel", "target", "to", "targets", "accountId", "media")}
WORKED_OUT = "worked out by the model"
MAX_VALUES = 64  # of one call; more are not judged one by one, and count as not given

_ADDRESS = compile_late(r"(?:https?://|www\.)[^\s\"'<>)\]]+|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.I)


def judge_values(tool: Tool, args: Mapping[str, Any], messages: Sequence[Message]) -> CallJudgement:
    """Who gave what decides about this call."""
    owner = spoken.list_own_words(messages)
    results = [m for m in messages if isinstance(m, ToolResult)]
    words = given.read_words(owner, [m.text for m in results if get_source_kind(m.source) == "own"])
    last = spoken.join_wish(messages, tool.name)
    upto = tool.reach.upto if tool.reach is not None else ()
    found: list[DecidingValue] = []
    named = False  # is one of them a thing that the owner called by its name?
    for name, value in _list_values(tool, args):
        if len(found) >= MAX_VALUES:
            found.append(DecidingValue(name, "(more)", "too many values to be judged"))
            break
        called = False
        ours = (
            given.is_given(value, words)
            or (
                name in upto
                and (given.is_within(value, words) or described.is_within_books(tool, args, value, messages))
            )
            or (called := given.is_called_by_name(name, value, words, (m.text for m in results)))
            or described.is_described(tool, name, value, words=words, last=last, messages=messages)
            or (tool.effect == "pure" and asks_for_pages(last) and _is_offered(tool, value, messages))
        )
        named |= called
        found.append(DecidingValue(name, value, "" if ours else _trace(value, messages)))
    return CallJudgement(
        tuple(found), asks_for(tool, last, named=named), undo=tool.reach is not None and tool.reach.undo
    )


def _is_offered(tool: Tool, value: str, messages: Sequence[Message]) -> bool:
    """May a tool that reads open this address: it stands in a message, a mail, a file (not in another page), and the
    owner asked for pages? A few times only: which one is opened tells its author something."""
    if not _ADDRESS.fullmatch(value):
        return False
    start = max((at for at, m in enumerate(messages) if spoken.is_owners(m)), default=0)
    opened = {str(c.arguments) for m in messages[start:] if isinstance(m, AssistantMessage) for c in m.calls
              if c.name == tool.name}  # fmt: skip
    pages = {tool.name, *PAGES}
    return len(opened) <= MAX_CHOICES and any(
        isinstance(m, ToolResult) and m.toolName not in pages and given.stands_in(given.fold(value), given.fold(m.text))
        for m in messages
    )


def make_tool_rule(tool: Tool, args: Mapping[str, Any]) -> CommandRule | None:
    """What "always" stores: this tool with these deciding values, and upper limits for amounts. None where the tool
    does not say what decides."""
    if tool.reach is None or not tool.reach.to:
        return None
    values = [f"{name}={value}" for name, value in _leaves(args, tool.reach.to) if name not in tool.reach.upto]
    limits = [f"{name}<={value}" for name, value in _leaves(args, tool.reach.upto)]
    return CommandRule(f"tool:{tool.name}", (*values, *limits)) if values else None


def is_covered(
    tool: Tool, args: Mapping[str, Any], rules: Sequence[CommandRule], judged: CallJudgement | None = None
) -> bool:
    """Does one of the stored rules let this call pass? Not with an address elsewhere in it that the owner did not give:
    "always to Alice" is no leave for a stranger's link."""
    made = make_tool_rule(tool, args)
    named = (*(tool.reach.to or ()), *tool.reach.upto) if tool.reach else ()
    if judged is not None and any(value.origin and value.name not in named for value in judged.values):
        return False
    return made is not None and any(
        rule.pattern == made.pattern and rule.argv is not None and _covers(rule.argv, made.argv or ()) for rule in rules
    )


def _covers(stored: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    """The same arguments, none with a value that was not seen then, and no amount above the one that was."""
    old, new = _group(stored), _group(wanted)
    if old.keys() != new.keys():
        return False
    return all(
        values <= old[name] if not name.endswith("<") else _most(values) <= _most(old[name])
        for name, values in new.items()
    )


def _group(rule: tuple[str, ...]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in rule:
        name, _, value = one.partition("=")
        found.setdefault(name, set()).add(value)
    return found


def _most(values: set[str]) -> float:
    """The largest; what is no number is more than any."""
    try:
        return max(float(value.replace(",", "")) for value in values)
    except ValueError:
        return float("inf")


def _list_values(tool: Tool, args: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Deciding values, and the addresses in all others."""
    named = tool.reach.to if tool.reach is not None else None if tool.origin else BUILTIN.get(tool.name)
    decides = tuple(args) if named is None else named
    if tool.reach is not None:
        decides = (*decides, *(name for name in tool.reach.upto if name not in decides))
    yield from _leaves(args, decides)
    for name, value in _leaves(args, tuple(name for name in args if name not in decides)):
        yield from ((name, address.rstrip(".,;:")) for address in _ADDRESS.findall(value))


def _leaves(args: Mapping[str, Any], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        waiting = [args.get(name)]
        while waiting:
            value = waiting.pop(0)
            if isinstance(value, Mapping):
                waiting[:0] = value.values()
            elif isinstance(value, (list, tuple)):
                waiting[:0] = value
            elif value is not None and not isinstance(value, bool) and str(value).strip():
                yield name, str(value).strip()


def _trace(value: str, messages: Sequence[Message]) -> str:
    """Where the value was first seen."""
    calls = {id(result): call for call, result in pair_results(messages)}
    for message in messages:
        if isinstance(message, AssistantMessage) or not _stands(value, message.text):
            continue
        if isinstance(message, UserMessage):
            return message.source or "text you pasted or were told"  # or it would be given
        if message.source:
            call = calls.get(id(message))
            about = ", ".join(str(v)[:60] for v in call.arguments.values() if isinstance(v, str)) if call else ""
            return f"{message.toolName} {about}".strip()[:120]
    return WORKED_OUT


def _stands(value: str, text: str) -> bool:
    wanted = given.fold(value)
    if wanted.replace(".", "").replace(",", "").isdigit():
        return given.is_given(value, given.read_words((), (text,)))
    return given.stands_in(wanted, given.fold(text[: given.MAX_TEXT]))
