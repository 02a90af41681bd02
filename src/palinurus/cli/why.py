"""`pal why cache [SESSION]`: what broke the prompt cache. Told from the diagnosis files and the ledger; reads only."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

import msgspec

from palinurus.agent.watch import (
    FOLDER,
    CacheBreakRecord,
    CacheSnapshot,
    format_share,
    load_cache_snapshot,
    locate_break,
)
from palinurus.agent.why import FIXES, explain_last_request, find_breaking_message
from palinurus.cli.args import CommandParser
from palinurus.config.paths import find_home
from palinurus.core.types.keys import parse_session_key
from palinurus.errors import BadRequest, NotFound
from palinurus.store.port import InboxRow, SessionRow, UsageRow
from palinurus.store.sqlite.reader import StateReader, open_reader

CALLS = 10  # of the ledger that are shown


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
    print(
        msgspec.json.encode(describe_cache(row, look, calls, items)).decode()
        if asked.json
        else format_cache(row, look, calls, items)
    )
    return 0


def _session(reader: StateReader, text: str) -> SessionRow:
    if not text:
        rows = reader.sessions()
        if not rows:
            raise NotFound("no session yet", fix="`pal chat` starts one")
        return rows[0]
    key = parse_session_key(text)
    if key is None:
        raise BadRequest(f"{text!r} is not a session key", fix="write it as agent:<agent>:<name>, or just <name>")
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
