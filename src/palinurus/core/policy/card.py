"""A question as people and clients see it: the card, and the payloads of the gateway's events. Pure.

Everything that would run is shown, with what cannot be seen written out. A card is text without markup, so that
nothing in a command can end its frame.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from palinurus.core.hidden import escape_character, needs_escape
from palinurus.core.policy.taint import order_sources
from palinurus.core.types.approval import ApprovalRequest
from palinurus.core.types.outbound import Button, ButtonStyle
from palinurus.patterns import compile_late

MAX_SHOWN = 3000  # characters; what is longer cannot be judged by eye, and does not fit a chat message
PREFIX = "    "
_ESCAPES = {"\n": "\\n\n", "\t": "\\t", "\\": "\\\\"}
_LABELS: dict[str, str] = {"allow-once": "Allow once", "allow-always": "Allow always", "deny": "Deny"}
_STYLES: dict[str, ButtonStyle] = {"allow-once": "good", "deny": "bad"}
_ANSWERS = compile_late(rf"/approve (\w+) ((?:{'|'.join(_LABELS)})(?:\|(?:{'|'.join(_LABELS)}))*)\Z")


def escape_hidden(text: str) -> str:
    """The text with hidden characters as escapes. A line break is shown as \\n and breaks the line."""
    written = "".join(_ESCAPES.get(c) or (escape_character(c) if needs_escape(c) else c) for c in text)
    return "\n".join(PREFIX + line for line in written.split("\n"))


def write_variables(env: Mapping[str, str]) -> tuple[str, ...]:
    """What a command's variables are, as they are asked about: a value can be the better part of a command."""
    return tuple(f"{name}={shlex.quote(value)}" for name, value in sorted(env.items()))


def count_shown(ask: ApprovalRequest) -> int:
    """Characters of what would run, as it is shown."""
    return len(show_command(ask)) + sum(len(show_line(one)) for one in ask.env)


def show_command(ask: ApprovalRequest) -> str:
    """The command as it is shown: plain text as it is, anything else escaped."""
    if all(c != "\n" and not needs_escape(c) for c in ask.command):
        return PREFIX + ask.command
    return escape_hidden(ask.command)


def write_approval_card(ask: ApprovalRequest, ident: str) -> str:
    """What the person reads who has to decide."""
    short = ident[:8]
    lines = [f"🔒 Approval needed [{short}]: {show_line(ask.title)}"]
    lines += list_fact_lines(ask)  # what decides stands first: people read the first lines
    lines += [show_command(ask)] if ask.command else []
    facts = (
        ("in", ask.cwd),
        ("program", ask.binary),
        ("with variables", ", ".join(ask.env)),
        ("asked for by", ask.asker),
        ("why", ask.why),
        ("untrusted content in this session", ", ".join(order_sources(ask.taint))),
        ("⚠️", ask.warning),
    )
    lines += [f"{name}: {show_line(value)}" for name, value in facts if value]
    lines.append(f"Answer within {round(ask.timeout / 60)} min: /approve {short} {'|'.join(ask.allowed)}")
    return "\n".join(lines)


def list_fact_lines(ask: ApprovalRequest) -> list[str]:
    """The values that decide, each with where it came from, and what was other when such a thing was last allowed."""
    lines = [f"{name}: {show_line(value)}" for name, value in ask.facts if value]
    return [*lines, f"last time you said yes: {show_line(ask.before)}"] if ask.before else lines


def explain_question(ask: ApprovalRequest, outcome: str) -> list[str]:
    """Why it was asked, and which value was judged how; for people who ask later."""
    lines = [f"{ask.tool}: {ask.title}", f"why: {ask.why}", *list_fact_lines(ask)]
    lines += [f"untrusted content before it: {show_line(', '.join(ask.taint))}"] if ask.taint else []
    for rule in ask.rules:
        lines.append(f"allow-always would store: {show_line(' '.join((rule.pattern, *(rule.argv or ()))))}")
    return [*lines, f"outcome: {show_line(outcome)}"]


def parse_card_buttons(text: str) -> tuple[Button, ...]:
    """The answers a card offers, for channels that can show buttons. Pressing one is the same as typing its text."""
    found = _ANSWERS.search(text)
    if found is None:
        return ()
    return tuple(
        Button(_LABELS[word], f"/approve {found[1]} {word}", _STYLES.get(word, "")) for word in found[2].split("|")
    )


def show_line(text: str) -> str:
    """One line, nothing hidden."""
    return "".join(escape_character(c) if needs_escape(c) else c for c in text)


def to_request_payload(ask: ApprovalRequest) -> dict[str, Any]:
    """`request` of exec.approval.requested."""
    variables = [f"with variables: {show_line(', '.join(ask.env))}"] if ask.env else []
    return {
        "command": ask.command or ask.title,
        "commandArgv": list(ask.argv),
        "cwd": ask.cwd,
        "host": ask.host,
        "security": ask.security,
        "ask": ask.ask,
        "warningText": ask.warning or ask.why,
        "commandAnalysis": {
            "commandCount": max(1, len(ask.rules)),
            "nestedCommandCount": 0,
            "riskKinds": list(ask.taint),
            "warningLines": [*list_fact_lines(ask), *variables, *(text for text in (ask.why, ask.warning) if text)],
        },
        "allowedDecisions": list(ask.allowed),
        "agentId": ask.agent,
        "resolvedPath": ask.binary,
        "sessionKey": ask.session,
        "envKeys": [one.partition("=")[0] for one in ask.env],
    }


def show_change(old: str, new: str) -> str:
    """Lines that go and lines that come, without the same ones around them; a new file as it is. Linear in both."""
    if not old:
        return new
    gone, come = old.split("\n"), new.split("\n")
    same = sum(1 for _ in takewhile(lambda two: two[0] == two[1], zip(gone, come, strict=False)))
    gone, come = gone[same:], come[same:]
    while gone and come and gone[-1] == come[-1]:
        del gone[-1], come[-1]
    return "\n".join((*(f"-{line}" for line in gone), *(f"+{line}" for line in come))) or "(nothing changes)"
