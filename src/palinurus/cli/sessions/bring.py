"""`pal sessions import`: a transcript file of another program or machine becomes a session here."""

from __future__ import annotations

import argparse
import asyncio
import os
import uuid

import msgspec

from palinurus.cli.sessions.place import hold_store, read_session_key, recover_journal, warn_unreadable
from palinurus.clock import Clock, SystemClock
from palinurus.core.types.keys import SessionKey
from palinurus.errors import BadRequest, NotFound
from palinurus.sessions import files
from palinurus.sessions.entries import ENTRY_DECODER, TRANSCRIPT_VERSION, TranscriptHeader, encode_header, to_iso
from palinurus.sessions.record import SessionRecord, check_session_id
from palinurus.sessions.reset import roll_over
from palinurus.sessions.transcript import Transcript, read_transcript


def import_session(home: str, asked: argparse.Namespace) -> None:
    """Raises NotFound, BadRequest, StateLocked, DiskFull, StateUnwritable."""
    key = read_session_key(asked.session)
    if not os.path.isfile(asked.file):
        raise NotFound(f"{asked.file}: no such file")
    transcript = read_transcript(asked.file)
    if not transcript.entries:
        raise BadRequest(
            f"{asked.file} holds no transcript ({len(transcript.bad)} unreadable pieces)",
            fix="give a session's JSONL file: a header line, then one JSON object a line",
        )
    record = asyncio.run(_take_over(home, key, transcript, SystemClock()))
    print(f"imported {len(transcript.messages())} messages into {key} ({record.path(key.agent)})")
    warn_unreadable(transcript)


async def _take_over(home: str, key: SessionKey, transcript: Transcript, clock: Clock) -> SessionRecord:
    """Put the file in its place, then the row; if the second fails, an unused file is all that is left."""
    async with hold_store(home, "import", clock) as store:
        await recover_journal(store, key)
        now = clock.now()
        row = await store.session(str(key))
        ident = _ident(home, key.agent, transcript)
        record = SessionRecord.fresh(key, now, ident)
        if row is not None:
            record = roll_over(SessionRecord.decode(row.data), key, now, ident, asked=True)
        provider, model = transcript.model() or (None, None)
        record = msgspec.structs.replace(record, modelProvider=provider, model=model)
        await asyncio.to_thread(files.place_file, home, record.path(key.agent), _content(transcript, ident, now))
        await store.save_session(record.row(key))
        return record


def _ident(home: str, agent: str, transcript: Transcript) -> str:
    """The file's own session id if it can be used and is free here, else a new one."""
    own = transcript.header.id if transcript.header else ""
    try:
        taken = os.path.exists(os.path.join(home, SessionRecord(sessionId=check_session_id(own)).path(agent)))
    except BadRequest:
        taken = True
    return str(uuid.uuid4()) if taken else own


def _content(transcript: Transcript, ident: str, now: int) -> bytes:
    """The file as it is with its last line ended; a header that is missing or has another id is replaced."""
    with open(transcript.path, "rb") as handle:
        lines = handle.read().split(b"\n")
    header = transcript.header or TranscriptHeader(version=TRANSCRIPT_VERSION, timestamp=to_iso(now), cwd=os.getcwd())
    own = next((i for i, line in enumerate(lines) if _is_header(line)), None)
    while not lines[-1].strip():
        lines.pop()
    if own is None or header.id != ident:
        rest = lines if own is None else lines[:own] + lines[own + 1 :]
        lines = [encode_header(msgspec.structs.replace(header, id=ident)), *rest]
    return b"\n".join([*lines, b""])


def _is_header(line: bytes) -> bool:
    try:
        return isinstance(ENTRY_DECODER.decode(line.removeprefix(b"\xef\xbb\xbf")), TranscriptHeader)
    except (ValueError, RecursionError):
        return False
