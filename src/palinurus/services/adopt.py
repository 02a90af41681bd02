"""A database that is new, or was lost, meets transcripts on disk: each gets its row again. Nothing is written to files.

A header says whose conversation it is (`sessionKey`). The newest file of a key is its session, the others are those
before it; a file without a key, of another program or of an older version, is a session of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.errors import BadRequest
from palinurus.sessions.entries import to_millis
from palinurus.sessions.files import SessionFile, list_session_files
from palinurus.sessions.lifecycle import read_header
from palinurus.sessions.record import SessionRecord, check_session_id, list_record_paths
from palinurus.store.port import SessionRow, Store

log = logging.getLogger(__name__)

_DONE = ("sessions", "found")  # the record that says that this database has looked


class _Found(msgspec.Struct, frozen=True):
    key: SessionKey
    ident: str
    began: int
    file: SessionFile


async def adopt_transcripts(home: str, store: Store) -> int:
    """Once per database; killed in between, the next start goes on. Returns how many sessions were found."""
    if await store.get_record(*_DONE) is not None:
        return 0
    rows = make_adopted_rows(await asyncio.to_thread(_look, home), await store.sessions())
    for row in rows:
        await store.save_session(row, expect=None)
    await store.put_record(*_DONE, b"1")
    if rows:
        log.warning("%d sessions that the database did not know were found on disk", len(rows))
    return len(rows)


def make_adopted_rows(found: list[_Found], known: Sequence[SessionRow]) -> list[SessionRow]:
    """The rows that are missing; a key that has one keeps it."""
    keys = {row.key for row in known}
    paths = {path for row in known for path in list_record_paths(row)}
    by_key: dict[SessionKey, list[_Found]] = {}
    for each in sorted(found, key=lambda each: (each.file.at, each.file.path)):
        if each.file.path not in paths and str(each.key) not in keys:
            by_key.setdefault(each.key, []).append(each)
    rows = []
    for key, (*before, last) in by_key.items():
        record = SessionRecord(
            sessionId=last.ident,
            updatedAt=last.file.at,
            sessionStartedAt=last.began or last.file.at,
            lastInteractionAt=last.file.at,
            chatType="group" if key.kind == "group" else "direct",
            usageFamilyKey=str(key) if before else None,
            usageFamilySessionIds=tuple(each.ident for each in before) or None,
        )
        rows.append(record.row(key))
    return rows


def _look(home: str) -> list[_Found]:
    found = []
    for file in list_session_files(home):
        ident = file.name.removesuffix(".jsonl")
        try:
            if file.name == ident or not file.size or check_session_id(ident) != ident:
                continue
        except BadRequest:
            continue
        header = read_header(f"{home}/{file.path}")
        key = parse_session_key(header.sessionKey)
        if key is None or key.agent != file.agent:
            key = SessionKey(file.agent, f"explicit:{ident.lower()}")
        found.append(_Found(key, ident, to_millis(header.timestamp), file))
    return found
