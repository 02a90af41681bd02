"""Which session `--continue` and `--resume` mean: by name, by words that were said in it, or chosen from a list."""

from __future__ import annotations

import os
import sys

from palinurus.cli.render import strip_controls
from palinurus.core.text import cut_line
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.errors import BadRequest, NotFound, StateBroken
from palinurus.sessions import search
from palinurus.sessions.entries import to_iso
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.titles import read_title
from palinurus.store.factory import open_reader
from palinurus.store.port import SessionRow
from palinurus.workspace.folders import KINDS

OFFERED = 15  # sessions to choose from at a time


def _load(home: str) -> list[tuple[SessionKey, SessionRecord, SessionRow]]:
    """The sessions that people talk in, newest first."""
    try:
        with open_reader(home) as reader:
            rows = reader.sessions()
    except NotFound:
        return []
    found = []
    for row in rows:
        key = parse_session_key(row.key)
        try:
            record = SessionRecord.decode(row.data)
        except StateBroken:
            continue
        if key is not None and key.kind in (*KINDS, "main") and key.kind != "subagent" and not key.unnamed:
            found.append((key, record, row))
    return sorted(found, key=lambda one: -one[2].updated)


def find_newest_session(home: str, folder: str, agent: str) -> SessionKey:
    """The newest of those that work in this folder ("": the home workspace). Raises NotFound."""
    for key, record, _ in _load(home):
        if (record.folder or "") == folder and (not agent or key.agent == agent):
            return key
    where = folder or "the home workspace"
    raise NotFound(f"there is no session in {where} yet", fix="leave out --continue: a new one begins")


def find_resumed_session(text: str, home: str, *, person: bool) -> SessionKey:
    """The one that is meant; of several, or without a `text`, the person chooses. Raises NotFound, BadRequest."""
    known = _load(home)
    matching = [key for key, record, _ in known if not text or _is_meant(text, key, record)]
    matching = matching or _search(home, text, {str(key) for key, _, _ in known})
    if len(matching) == 1 and text:
        return matching[0]
    if not matching:
        raise NotFound(f"no session is called so, or says {text!r}", fix="`pal sessions`, `pal sessions search WORDS`")
    if not person:
        listed = ", ".join(str(key) for key in matching[:OFFERED])
        raise BadRequest("which session is meant?", fix=f"one of: {strip_controls(listed)}")
    return _pick(home, known, matching)


def _is_meant(text: str, key: SessionKey, record: SessionRecord) -> bool:
    names = (str(key), key.rest, key.rest.rpartition(":")[2], record.label, record.sessionId)
    return text in names or (len(text) >= 6 and record.sessionId.startswith(text))


def _search(home: str, text: str, known: set[str]) -> list[SessionKey]:
    """Sessions in which something like it was said, newest first."""
    query = search.parse_query(text, None, 0, 50)
    if not query.terms:
        return []
    with open_reader(home) as reader:
        keys = search.map_transcript_keys(reader.sessions())
    hits = (keys.get(hit.path.partition(".jsonl")[0]) for hit in search.search_transcripts(home, query).hits)
    found = (parse_session_key(name) for name in dict.fromkeys(hits) if name in known)
    return [key for key in found if key is not None]


def _pick(
    home: str, known: list[tuple[SessionKey, SessionRecord, SessionRow]], offered: list[SessionKey]
) -> SessionKey:
    """A numbered list; words instead of a number look for sessions that say so."""
    rows = {str(key): (record, row) for key, record, row in known}
    while True:
        for number, key in enumerate(offered[:OFFERED], 1):
            record, row = rows[str(key)]
            where = f"  in {record.folder}" if record.folder else ""
            title = record.label or record.displayName or read_title(os.path.join(home, record.path(key.agent)))
            line = f"{number:3}  {to_iso(row.updated)[:16]}  {key}{where}  {cut_line(title, 60)}"
            print(strip_controls(line).rstrip(), file=sys.stderr)
        try:
            said = input("number, or words to look for: ").strip()
        except EOFError:
            said = ""
        if not said:
            raise BadRequest("no session was chosen", fix="`pal` alone goes on with this folder's")
        if said.isdigit() and 1 <= int(said) <= min(len(offered), OFFERED):
            return offered[int(said) - 1]
        if not (found := _search(home, said, set(rows))):
            print("nothing found", file=sys.stderr)
        offered = found or offered
