"""HEARTBEAT.md: what it asks for, and the tasks in it that have intervals of their own. Pure.

tasks:
  - name: inbox
    interval: 2h
    prompt: Look for urgent mail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

_HEAD = re.compile(r"^tasks:\s*$")
_ITEM = re.compile(r"^\s*-\s+(\w+):\s*(.*)$")
_FIELD = re.compile(r"^\s+(\w+):\s*(.*)$")
_NOTHING = re.compile(r"^\s*(#.*|[-*+]\s*(\[[ xX]?\])?\s*|```\w*|<!--.*-->)?$")


class Task(msgspec.Struct, frozen=True):
    """`interval` in seconds."""

    name: str
    interval: float
    prompt: str


class Page(msgspec.Struct, frozen=True):
    """`text` is what stands there besides the tasks; "" if that says nothing."""

    tasks: tuple[Task, ...] = ()
    text: str = ""


def read(text: str, seconds: Callable[[str], float | None]) -> Page:
    """`seconds` reads a duration. A task without a name, an interval or a prompt is left in the text."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if _HEAD.match(line)), None)
    if start is None:
        return Page(text=_said(lines))
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or lines[end][:1] in " \t-"):
        end += 1
    found: list[dict[str, str]] = []
    for line in lines[start + 1 : end]:
        if item := _ITEM.match(line):
            found.append({item[1]: _bare(item[2])})
        elif found and (field := _FIELD.match(line)):
            found[-1][field[1]] = _bare(field[2])
    tasks = [task for each in found if (task := _task(each, seconds)) is not None]
    return Page(tuple(tasks), _said(lines[:start] + lines[end:]))


def due(tasks: tuple[Task, ...], last: Mapping[str, int], now: int) -> tuple[Task, ...]:
    """Those whose interval is over; `last` says when each was asked about, in milliseconds."""
    return tuple(task for task in tasks if now - last.get(task.name, -(1 << 60)) >= task.interval * 1000)


def _task(fields: dict[str, str], seconds: Callable[[str], float | None]) -> Task | None:
    every = seconds(fields.get("interval", ""))
    if not fields.get("name") or not fields.get("prompt") or not every:
        return None
    return Task(fields["name"], every, fields["prompt"])


def _bare(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _said(lines: list[str]) -> str:
    return "" if all(_NOTHING.match(line) for line in lines) else "\n".join(lines).strip()
