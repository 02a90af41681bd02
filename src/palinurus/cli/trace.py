"""`pal trace ID`: one message from its acceptance to its receipt, told from the store alone.

Reads only; works beside a running gateway and without one.
"""

from __future__ import annotations

import argparse
import os
from datetime import datetime
from typing import Any

import msgspec

from palinurus.config.paths import find_home
from palinurus.errors import NotFound
from palinurus.store.port import InboxRow, TraceStep
from palinurus.store.sqlite.reader import StateReader, open_reader


def run_trace(argv: list[str]) -> int:
    """Print the timeline. Returns 0; raises NotFound when no message has that id, or several begin with it."""
    parser = argparse.ArgumentParser(prog="pal trace", description="Follow one message through the system.")
    parser.add_argument("id", help="the message's id, or the beginning of it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)
    with open_reader(find_home(os.environ)) as reader:
        row = reader.item(args.id)
        if row is None:
            raise NotFound(f"no message, or more than one, has an id that begins with {args.id!r}", fix=_recent(reader))
        steps = reader.trace(row.id)
    print(msgspec.json.encode(describe_trace(row, steps)).decode() if args.json else format_trace(row, steps))
    return 0


def describe_trace(row: InboxRow, steps: list[TraceStep]) -> dict[str, Any]:
    """The whole trace as plain data."""
    return {
        "id": row.id,
        "session": row.session,
        "lane": row.lane,
        "state": row.state,
        "outcome": row.outcome,
        "note": row.note,
        "attempts": row.attempts,
        "absorbedBy": row.absorbed_by or None,
        "acceptedAt": row.at,
        "steps": [{"at": step.at, "what": step.what, "detail": step.detail} for step in steps],
    }


def format_trace(row: InboxRow, steps: list[TraceStep]) -> str:
    """The trace for people: a heading, then one line per step with the time since the message was accepted."""
    when = datetime.fromtimestamp(row.at / 1000).astimezone().isoformat(" ", "milliseconds")
    end = row.outcome or row.state
    head = [f"message  {row.id}", f"session  {row.session}  (lane {row.lane})", f"came     {when}", f"stands   {end}"]
    if row.absorbed_by:
        head[-1] += f" by {row.absorbed_by}: its answer is there (pal trace {row.absorbed_by})"
    width = max((len(step.what) for step in steps), default=0)
    lines = [f"{_since(step.at - row.at):>10}  {step.what:<{width}}  {_line(step.detail)}".rstrip() for step in steps]
    return "\n".join([*head, "", *lines])


def _since(ms: int) -> str:
    if ms < 0:
        return f"-{_since(-ms)}"  # the clock was set back meanwhile
    if ms < 1000:
        return f"+{ms} ms"
    if ms < 60_000:
        return f"+{ms / 1000:.2f} s"
    minutes, seconds = divmod(ms // 1000, 60)
    return f"+{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"+{minutes}:{seconds:02}"


def _line(text: str) -> str:
    """One printable line: control characters could move the reader's cursor."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    return clean if len(clean) <= 200 else clean[:199] + "…"


def _recent(reader: StateReader) -> str:
    rows = reader.items(limit=3)
    return "the latest are " + ", ".join(row.id for row in rows) if rows else "no message has been accepted yet"
