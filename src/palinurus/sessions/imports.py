"""A transcript file of another program or machine becomes a session here. The file first, then the row: if the second
fails, an unused file is all that is left.
"""

from __future__ import annotations

import asyncio
import os
import uuid

import msgspec

from palinurus.core.types.keys import SessionKey
from palinurus.errors import BadRequest
from palinurus.sessions import files
from palinurus.sessions.entries import ENTRY_DECODER, TRANSCRIPT_VERSION, TranscriptHeader, encode_header, to_iso
from palinurus.sessions.lifecycle import roll_over
from palinurus.sessions.record import SessionRecord, check_session_id
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import Store


async def import_transcript(home: str, store: Store, key: SessionKey, data: bytes, now: int) -> SessionRecord:
    """The session at `key` is now what `data`, the content of such a file, says; one that was there is over.

    Raises BadRequest, DiskFull, StateUnwritable.
    """
    transcript = Transcript("")
    transcript.fill(data)
    if not transcript.entries:
        raise BadRequest(
            f"there is no transcript in it ({len(transcript.bad)} unreadable pieces)",
            fix="give a session's JSONL file: a header line, then one JSON object a line",
        )
    row = await store.session(str(key))
    ident = _choose_id(home, key.agent, transcript)
    record = SessionRecord.fresh(key, now, ident)
    if row is not None:
        record = roll_over(SessionRecord.decode(row.data), key, now, ident, asked=True)
    provider, model = transcript.model() or (None, None)
    record = msgspec.structs.replace(record, modelProvider=provider, model=model)
    content = _replace_header(data, transcript.header, ident, now)
    await asyncio.to_thread(files.place_file, home, record.path(key.agent), content)
    await store.save_session(record.row(key))
    return record


def _choose_id(home: str, agent: str, transcript: Transcript) -> str:
    """The file's own session id if it can be used and is free here, else a new one."""
    own = transcript.header.id if transcript.header else ""
    try:
        taken = os.path.exists(os.path.join(home, SessionRecord(sessionId=check_session_id(own)).path(agent)))
    except BadRequest:
        taken = True
    return str(uuid.uuid4()) if taken else own


def _replace_header(data: bytes, found: TranscriptHeader | None, ident: str, now: int) -> bytes:
    """The file as it is with its last line ended; a header that is missing or has another id is replaced."""
    lines = data.split(b"\n")
    header = found or TranscriptHeader(version=TRANSCRIPT_VERSION, timestamp=to_iso(now), cwd=os.getcwd())
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
