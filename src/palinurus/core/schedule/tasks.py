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


class HeartbeatTask(msgspec.Struct, frozen=True):
    """`interval` in seconds."""

    name: str
    interval: float
    prompt: str


class HeartbeatPage(msgspec.Struct, frozen=True):
    """`text` is what stands there besides the tasks; "" if that says nothing."""

    tasks: tuple[HeartbeatTask, ...] = ()
    text: str = ""


def parse_heartbeat_page(text: str, seconds: Callable[[str], float | None]) -> HeartbeatPage:
    """`seconds` reads a duration. A task without a name, an interval or a prompt is left in the text."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if _HEAD.match(line)), None)
    if start is None:
        return HeartbeatPage(text=_said(lines))
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
    return HeartbeatPage(tuple(tasks), _said(lines[:start] + lines[end:]))


def list_due_tasks(tasks: tuple[HeartbeatTask, ...], last: Mapping[str, int], now: int) -> tuple[HeartbeatTask, ...]:
    """Those whose interval is over; `last` says when each was asked about, in milliseconds."""
    return tuple(task for task in tasks if now - last.get(task.name, -(1 << 60)) >= task.interval * 1000)


def _task(fields: dict[str, str], seconds: Callable[[str], float | None]) -> HeartbeatTask | None:
    every = seconds(fields.get("interval", ""))
    if not fields.get("name") or not fields.get("prompt") or not every:
        return None
    return HeartbeatTask(fields["name"], every, fields["prompt"])


def _bare(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _said(lines: list[str]) -> str:
    return "" if all(_NOTHING.match(line) for line in lines) else "\n".join(lines).strip()
