"""`pal why cache [SESSION]`: what broke the prompt cache. Told from the diagnosis files and the ledger; reads only."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

import msgspec

from palinurus.agent.fingerprint import CHARS
from palinurus.agent.watch import FOLDER, Found, Look, load, place, share
from palinurus.cli.args import Parser
from palinurus.config.paths import home
from palinurus.core.types.keys import session_key
from palinurus.errors import BadRequest, NotFound
from palinurus.store.port import ItemRow, SessionRow, Spent
from palinurus.store.sqlite.reader import Reader, open_reader

CALLS = 10  # of the ledger that are shown
SHORT = 300_000  # ms: how long providers keep a prefix at least, as a rule
_FIXES = {
    "model": "a cache belongs to one model; switching models pays for the whole history once",
    "tools": "tools come first in every request: a list that changes between turns costs everything after it",
    "prompt": "the stable part changed: an edited workspace file, another skill, another setting",
    "chat": "the part below the boundary follows channel, thinking level and HEARTBEAT.md",
    "compaction": "expected: the history was shortened to fit",
    "history limit": "expected with a history limit: each turn drops the oldest one",
    "history": "messages that were already sent were changed, pruned or taken back",
}


def run(argv: list[str]) -> int:
    """Print the explanation. Returns 0; raises NotFound, BadRequest."""
    parser = Parser("why", "Explain what happened.")
    parser.add_argument("what", choices=("cache",), help="cache: what of the last prompt the provider could reuse")
    parser.add_argument("session", nargs="?", default="", help="session key (default: the one used last)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args(argv)
    where = home(os.environ)
    with open_reader(where) as reader:
        row = _session(reader, asked.session)
        calls = reader.spent(0, row.key)[-CALLS:]
        items = reader.items(limit=200, session=row.key)
    look = load(os.path.join(where, FOLDER), row.session_id)
    print(msgspec.json.encode(facts(row, look, calls, items)).decode() if asked.json else told(row, look, calls, items))
    return 0


def _session(reader: Reader, text: str) -> SessionRow:
    if not text:
        rows = reader.sessions()
        if not rows:
            raise NotFound("no session yet", fix="`pal chat` starts one")
        return rows[0]
    key = session_key(text)
    if key is None:
        raise BadRequest(f"{text!r} is not a session key", fix="write it as agent:<agent>:<name>, or just <name>")
    row = reader.session(str(key))
    if row is None:
        raise NotFound(f"no session {key}", fix="`pal sessions` lists them")
    return row


def facts(row: SessionRow, look: Look | None, calls: list[Spent], items: list[ItemRow]) -> dict[str, Any]:
    """The whole as plain data."""
    seen: dict[str, Any] | None = None
    if look is not None:
        names = ("model", "at", "kept", "total", "idle", "requests")
        seen = {name: getattr(look, name) for name in names}
        seen["sections"] = [{"group": p.group, "name": p.name, "bytes": p.size} for p in look.pieces]
        seen["breaks"] = [
            {"at": f.at, "item": cause(f, items), "why": _FIXES[f.what.cause], **msgspec.to_builtins(f.what)}
            for f in look.breaks
        ]
    return {
        "session": row.key,
        "sessionId": row.session_id,
        "request": seen,
        "calls": [msgspec.to_builtins(call) for call in calls],
        "verdict": verdict(look, calls),
    }


def told(row: SessionRow, look: Look | None, calls: list[Spent], items: list[ItemRow]) -> str:
    """For people."""
    lines = [f"session   {row.key}"]
    if look is not None:
        lines.append(f"model     {look.model}")
        lines.append(f"requests  {look.requests}, the last {_when(look.at)}: {share(look.kept, look.total)} as before")
    lines += ["", verdict(look, calls)]
    if look is not None and look.breaks:
        lines += ["", "breaks, newest first:"]
        for found in reversed(look.breaks):
            lines += _break(found, cause(found, items))
    if calls:
        lines += ["", "what the provider counted, newest last:"]
        lines += [_call(call) for call in calls]
    return "\n".join(lines)


def verdict(look: Look | None, calls: list[Spent]) -> str:
    """One sentence: what happened with the last request."""
    if look is None:
        return "No request of this session has been looked at yet."
    if look.requests < 2:
        return "This session has made one request: there was nothing to reuse yet."
    last = look.breaks[-1] if look.breaks else None
    if last is not None and last.at == look.at:
        return f"The last request broke the prefix. {_FIXES[last.what.cause].capitalize()}."
    counted = calls[-1] if calls else None
    if counted is None or counted.cache_read or counted.cache_write:
        return "The last request began exactly as the one before it."
    if look.idle > SHORT:
        return (
            f"The prefix was unchanged, but the provider read nothing from its cache: the request before was "
            f"{look.idle // 60_000} minutes older, and it has probably been dropped meanwhile (params.cacheRetention)."
        )
    return (
        "The prefix was unchanged, but the provider reports no cache use: it has no cache, does not tell, or the "
        f"prompt ({look.total // CHARS} tokens) is shorter than it takes."
    )


def cause(found: Found, items: list[ItemRow]) -> str:
    """The message in whose run the break came; "" if it is not on file any more."""
    return next(
        (i.id for i in items if i.claimed and i.claimed <= found.at and (not i.settled or found.at <= i.settled)), ""
    )


def _break(found: Found, item: str) -> list[str]:
    what = found.what
    lines = [
        f"  {_when(found.at)}  {_clean(place(what))}",
        f"      {_clean(what.note)}; {share(what.kept, what.total)} kept",
    ]
    if what.before or what.after:
        lines += [f"      was: {_clean(what.before)}", f"      now: {_clean(what.after)}"]
    return [*lines, f"      why: {_FIXES[what.cause]}" + (f" (pal trace {item})" if item else "")]


def _call(call: Spent) -> str:
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
