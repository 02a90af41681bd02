"""`pal why cache [SESSION]`: what broke the prompt cache, told from the diagnosis files and the ledger. `pal trace ID`:
one message from its acceptance to its receipt, told from the store alone. Reads only, beside a gateway and without one.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

import msgspec

from palinurus.agent.promptcache import (
    FIXES,
    FOLDER,
    CacheBreakRecord,
    CacheSnapshot,
    explain_last_request,
    find_breaking_message,
    format_share,
    load_cache_snapshot,
    locate_break,
)
from palinurus.cli.args import CommandParser, read_session_key, to_json
from palinurus.config.paths import find_home
from palinurus.errors import NotFound
from palinurus.store.factory import StateReader, open_reader
from palinurus.store.port import InboxRow, SessionRow, TraceStep, UsageRow

CALLS = 10  # of the ledger that are shown


def run_trace(argv: list[str]) -> int:
    """Print the timeline. Returns 0; raises NotFound when no message has that id, or several begin with it."""
    parser = CommandParser("trace", "Follow one message through the system.")
    parser.add_argument("id", help="the message's id, or the beginning of it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)
    with open_reader(find_home(os.environ)) as reader:
        row = reader.item(args.id)
        if row is None:
            raise NotFound(f"no message, or more than one, has an id that begins with {args.id!r}", fix=_recent(reader))
        steps = reader.trace(row.id)
    print(to_json(describe_trace(row, steps)) if args.json else format_trace(row, steps))
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


def run_why(argv: list[str]) -> int:
    """Print the explanation. Returns 0; raises NotFound, BadRequest."""
    parser = CommandParser("why", "Explain what happened.")
    parser.add_argument("what", choices=("cache",), help="cache: what of the last prompt the provider could reuse")
    parser.add_argument("session", nargs="?", default="", help="session key (default: the one used last)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args(argv)
    where = find_home(os.environ)
    with open_reader(where) as reader:
        row = _session(reader, asked.session)
        calls = reader.list_usage(0, row.key)[-CALLS:]
        items = reader.items(limit=200, session=row.key)
    look = load_cache_snapshot(os.path.join(where, FOLDER), row.session_id)
    print(to_json(describe_cache(row, look, calls, items)) if asked.json else format_cache(row, look, calls, items))
    return 0


def _session(reader: StateReader, text: str) -> SessionRow:
    if not text:
        rows = reader.sessions()
        if not rows:
            raise NotFound("no session yet", fix="`pal chat` starts one")
        return rows[0]
    key = read_session_key(text)
    row = reader.session(str(key))
    if row is None:
        raise NotFound(f"no session {key}", fix="`pal sessions` lists them")
    return row


def describe_cache(
    row: SessionRow, look: CacheSnapshot | None, calls: list[UsageRow], items: list[InboxRow]
) -> dict[str, Any]:
    """The whole as plain data."""
    seen: dict[str, Any] | None = None
    if look is not None:
        names = ("model", "at", "kept", "total", "idle", "requests")
        seen = {name: getattr(look, name) for name in names}
        seen["sections"] = [{"group": p.group, "name": p.name, "bytes": p.size} for p in look.pieces]
        seen["breaks"] = [
            {
                "at": f.at,
                "item": find_breaking_message(f, items),
                "why": FIXES[f.what.cause],
                **msgspec.to_builtins(f.what),
            }
            for f in look.breaks
        ]
    return {
        "session": row.key,
        "sessionId": row.session_id,
        "request": seen,
        "calls": [msgspec.to_builtins(call) for call in calls],
        "verdict": explain_last_request(look, calls),
    }


def format_cache(row: SessionRow, look: CacheSnapshot | None, calls: list[UsageRow], items: list[InboxRow]) -> str:
    """For people."""
    lines = [f"session   {row.key}"]
    if look is not None:
        lines.append(f"model     {look.model}")
        lines.append(
            f"requests  {look.requests}, the last {_when(look.at)}: {format_share(look.kept, look.total)} as before"
        )
    lines += ["", explain_last_request(look, calls)]
    if look is not None and look.breaks:
        lines += ["", "breaks, newest first:"]
        for found in reversed(look.breaks):
            lines += _break(found, find_breaking_message(found, items))
    if calls:
        lines += ["", "what the provider counted, newest last:"]
        lines += [_call(call) for call in calls]
    return "\n".join(lines)


def _break(found: CacheBreakRecord, item: str) -> list[str]:
    what = found.what
    lines = [
        f"  {_when(found.at)}  {_clean(locate_break(what))}",
        f"      {_clean(what.note)}; {format_share(what.kept, what.total)} kept",
    ]
    if what.before or what.after:
        lines += [f"      was: {_clean(what.before)}", f"      now: {_clean(what.after)}"]
    return [*lines, f"      why: {FIXES[what.cause]}" + (f" (pal trace {item})" if item else "")]


def _call(call: UsageRow) -> str:
    asked = call.input + call.cache_read + call.cache_write
    hit = 100 * call.cache_read // max(1, asked)
    return (
        f"  {_when(call.at)}  {call.provider}/{call.model}: {asked} in, {call.cache_read} read from cache ({hit} %), "
        f"{call.cache_write} written"
    )


def _when(at: int) -> str:
    return datetime.fromtimestamp(at / 1000).astimezone().isoformat(" ", "seconds")[:19]


def _clean(text: str) -> str:
    """One printable line: prompts hold what strangers wrote."""
    return "".join(c if c.isprintable() else "⏎" if c == "\n" else " " for c in text)
