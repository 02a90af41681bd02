"""The line at the bottom: agent, session, model, thinking, tokens, cost, and what goes on. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.core.text import cut_end, format_span, format_tokens
from palinurus.core.types.keys import parse_session_key


class StatusBarFacts(msgspec.Struct, frozen=True):
    """What the line tells. `line` is the state of the connection: "" when it stands."""

    session: str
    row: Mapping[str, Any]  # the session as the gateway lists it
    running: float | None = None  # seconds
    line: str = ""
    waiting: int = 0  # questions that wait for an answer
    cost: float = 0.0  # dollars
    profile: str = ""


def format_model(row: Mapping[str, Any]) -> str:
    """provider/model, or "" before anybody knows."""
    return f"{row['modelProvider']}/{row['model']}" if row.get("model") else ""


def format_level(row: Mapping[str, Any]) -> str:
    """The thinking level in force."""
    return str(row.get("thinkingLevel") or row.get("thinkingDefault") or "off")


def format_ago(now: int, then: Any) -> str:
    """How long ago that was, as the beginning of a line; "" if nobody knows."""
    if not isinstance(then, int):
        return ""
    seconds = max(0, (now - then) // 1000)
    return f"{format_span(seconds)} ago, " if seconds >= 60 else "just now, "


def cut_path(path: str) -> str:
    """The end of a path, which tells folders apart."""
    return path if len(path) <= 30 else f"…{path[-29:]}"


def list_status_parts(facts: StatusBarFacts) -> list[str]:
    """The words of the line, most important first."""
    key = parse_session_key(facts.session)
    row = facts.row
    place = f"{key.agent}/{key.rest}" if key is not None else facts.session
    name = str(row.get("label") or "")
    shown = [facts.line] if facts.line else []
    if facts.running is not None:
        shown.append(f"working {facts.running:.0f} s, Esc stops")
    if facts.waiting:
        shown.append(f"{facts.waiting} to decide")
    place = f"[{facts.profile}] {place}" if facts.profile else place
    shown += [f"{place} ({name})" if name else place]
    if folder := str(row.get("folder") or ""):
        shown.append(f"in {cut_path(folder)}")
    if format_model(row):
        shown += [format_model(row), f"think {format_level(row)}"]
    used, room = row.get("totalTokens") or 0, row.get("contextTokens") or 0
    if room:
        shown.append(f"{format_tokens(used)}/{format_tokens(room)} tokens")
    if facts.cost:
        shown.append(f"${facts.cost:.4f}" if facts.cost < 1 else f"${facts.cost:.2f}")
    return shown


def render_status_line(facts: StatusBarFacts, width: int) -> str:
    """One line of at most `width` characters; what matters least is left out first."""
    shown = list_status_parts(facts)
    while len(shown) > 2 and len("  ".join(shown)) > width:
        shown.pop()
    return cut_end("  ".join(shown), width)
