"""`pal why cache`: what broke the prompt cache, from the diagnosis files and the ledger. Reads only."""

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
from palinurus.cli.args import read_session_key, to_json
from palinurus.config.paths import find_home
from palinurus.errors import NotFound
from palinurus.store.factory import StateReader, open_reader
from palinurus.store.port import InboxRow, SessionRow, UsageRow

CALLS = 10  # of the ledger that are shown


def print_cache(text: str, *, as_json: bool) -> int:
    """Of the session that is meant, or of the last one. Returns 0; raises NotFound, BadRequest."""
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
