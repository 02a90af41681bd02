"""`pal sessions search`: words in all conversations, newest first."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime

import msgspec

from palinurus.cli.sessions.place import strip_terminal_codes
from palinurus.clock import SystemClock
from palinurus.config import durations
from palinurus.core.types.keys import parse_agent_id
from palinurus.errors import BadRequest, NotFound, StateBroken
from palinurus.sessions import search as searches
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import SessionRow
from palinurus.store.sqlite.reader import open_reader


def search_sessions(home: str, asked: argparse.Namespace) -> None:
    """Print what is found. Raises BadRequest for a time or an agent that cannot be."""
    agent = parse_agent_id(asked.agent) if asked.agent else None
    if asked.agent and agent is None:
        raise BadRequest(f"{asked.agent!r} is no agent id")
    text = " ".join(f'"{word}"' if " " in word else word for word in asked.text)
    query = searches.parse_query(text, agent, _since(asked.since), asked.limit)
    if not query.terms:
        raise BadRequest("there is no word to look for")
    found = searches.search_transcripts(home, query)
    keys = _keys(home)
    if found.note:
        print(f"note: {strip_terminal_codes(found.note)}; the files were read instead", file=sys.stderr)
    if asked.json:
        rows = [{**hit._asdict(), "key": keys.get(hit.path.partition(".jsonl")[0])} for hit in found.hits]
        print(msgspec.json.encode(rows).decode())
        return
    if not found.hits:
        print("nothing found")
    for hit in found.hits:
        where = keys.get(hit.path.partition(".jsonl")[0]) or hit.path
        print(strip_terminal_codes(f"{searches.format_hit_time(hit)}  {where}  {hit.entry}  {hit.who}\n    {hit.text}"))


def _since(text: str | None) -> int:
    if not text:
        return 0
    past = durations.parse_duration(text, "d")
    if past is not None:
        return SystemClock().now() - int(past * 1000)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise BadRequest(f"{text!r} is no time", fix="write 7d, 12h or a date such as 2026-06-01") from None


def _keys(home: str) -> dict[str, str]:
    """Transcript path without its suffix -> session key; earlier transcripts of a session included."""
    try:
        with open_reader(home) as reader:
            rows = reader.sessions()
    except NotFound:
        return {}
    return {path: row.key for row in reversed(rows) for path in _paths(row)}


def _paths(row: SessionRow) -> list[str]:
    try:
        record = SessionRecord.decode(row.data)
    except StateBroken:
        return []
    folder = f"agents/{row.agent}/sessions"
    return [*(f"{folder}/{ident}" for ident in record.usageFamilySessionIds or ()), record.path(row.agent)[:-6]]
