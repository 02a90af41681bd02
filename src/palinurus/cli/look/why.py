"""`pal why …`: why a run was as it was, from the store and the transcript (`services/why.py` has the words); `pal why
cache`: what broke the prompt cache, from the diagnosis files and the ledger. `pal trace ID`: one message from its
acceptance to its receipt. Reads only, beside a gateway and without one.
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
from palinurus.cli.main import main
from palinurus.cli.render import strip_controls
from palinurus.config.paths import find_home
from palinurus.core.types.card import CARD
from palinurus.core.types.messages import Message
from palinurus.errors import BadRequest, NotFound
from palinurus.services.why import TOPICS, RunFacts, describe_run, format_why
from palinurus.sessions.entries import MessageEntry
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import read_transcript
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
        steps = [step for step in reader.trace(row.id) if step.what != CARD]  # what they say: pal why
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


# What `pal why` answers that is no topic of a run, and the command that knows it.
ELSEWHERE = {
    "job": ("cron", "why"),
    "config": ("config", "explain"),
    "policy": ("policy", "explain"),
}
WHAT = (*(topic for topic in TOPICS if topic != "short"), "cache", *ELSEWHERE)
LAST = ("", "last")
RECENT = 50  # messages among which the last one is that is no command


def run_why(argv: list[str]) -> int:
    """Print the explanation. Returns 0; raises NotFound, BadRequest."""
    parser = CommandParser("why", "Explain what happened. `pal why` alone tells of the last message.")
    parser.add_argument("what", nargs="?", default="run", help=f"last, {', '.join(WHAT)}; or the id of a message")
    parser.add_argument(
        "name", nargs="*", help="a message's id, or a session (default: the last message); tool: NAME [ID]"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args(argv)
    if asked.what in ELSEWHERE:
        return main([*ELSEWHERE[asked.what], *asked.name, *(["--json"] if asked.json else [])])
    if asked.what == "cache":
        return _print_cache(asked.name[0] if asked.name else "", as_json=asked.json)
    topic, words = (asked.what, asked.name) if asked.what in TOPICS else ("run", [asked.what, *asked.name])
    tool = words.pop(0) if topic == "tool" and words else ""
    if len(words) > 1:
        raise BadRequest(f"{words[1]!r}: one message at a time", fix="`pal why --help`")
    told = describe_run(_gather(find_home(os.environ), words[0] if words else ""))
    print(to_json(told) if asked.json else strip_controls(format_why(told, topic, tool)))
    return 0


def _gather(home: str, text: str) -> RunFacts:
    """All that is on file about the message that is meant. Raises NotFound."""
    with open_reader(home) as reader:
        row = _find_message(reader, text)
        calls = [call for call in reader.list_usage(row.at, row.session) if call.item == row.id]
        steps, session = reader.trace(row.id), reader.session(row.session)
    said: list[Message] = []
    if session is not None:
        path = SessionRecord.decode(session.data).path(session.agent)
        entries = read_transcript(os.path.join(home, path)).entries_of(row.id)
        said = [entry.message for entry in entries if isinstance(entry, MessageEntry)]
    return RunFacts(row, steps, calls, said)


def _find_message(reader: StateReader, text: str) -> InboxRow:
    """By id or its beginning, or the last one of a session, or the last one of all."""
    if text in LAST:
        rows = [row for row in reader.items(limit=RECENT) if row.lane != "control"]  # commands ask no model
        if not rows:
            raise NotFound("no message has been accepted yet", fix="`pal chat` starts a conversation")
        return rows[0]
    found = reader.item(text)
    if found is not None:
        return found
    try:
        rows = reader.items(limit=1, session=str(read_session_key(text)))
    except BadRequest:
        rows = []
    if not rows:
        raise NotFound(f"no message, or more than one, and no session is called {text!r}", fix=_recent(reader))
    return rows[0]


def _print_cache(text: str, *, as_json: bool) -> int:
    where = find_home(os.environ)
    with open_reader(where) as reader:
        row = _session(reader, text)
        calls = reader.list_usage(0, row.key)[-CALLS:]
        items = reader.items(limit=200, session=row.key)
    look = load_cache_snapshot(os.path.join(where, FOLDER), row.session_id)
    print(to_json(describe_cache(row, look, calls, items)) if as_json else format_cache(row, look, calls, items))
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
