"""`pal sessions import`: a transcript file of another program or machine becomes a session here."""

from __future__ import annotations

import argparse
import asyncio
import os
import uuid

import msgspec

from palinurus.cli.sessions.place import held, key_of, note, settled
from palinurus.clock import Clock, SystemClock
from palinurus.core.types.keys import SessionKey
from palinurus.errors import BadRequest, NotFound
from palinurus.sessions import files
from palinurus.sessions.entries import DECODER, VERSION, Header, encode, iso
from palinurus.sessions.record import Record, safe
from palinurus.sessions.reset import rollover
from palinurus.sessions.transcript import Transcript, read


def bring(home: str, asked: argparse.Namespace) -> None:
    """Raises NotFound, BadRequest, StateLocked, DiskFull, StateUnwritable."""
    key = key_of(asked.session)
    if not os.path.isfile(asked.file):
        raise NotFound(f"{asked.file}: no such file")
    transcript = read(asked.file)
    if not transcript.entries:
        raise BadRequest(
            f"{asked.file} holds no transcript ({len(transcript.bad)} unreadable pieces)",
            fix="give a session's JSONL file: a header line, then one JSON object a line",
        )
    record = asyncio.run(_take_over(home, key, transcript, SystemClock()))
    print(f"imported {len(transcript.messages())} messages into {key} ({record.path(key.agent)})")
    note(transcript)


async def _take_over(home: str, key: SessionKey, transcript: Transcript, clock: Clock) -> Record:
    """Put the file in its place, then the row; if the second fails, an unused file is all that is left."""
    async with held(home, "import", clock) as store:
        await settled(store, key)
        now = clock.now()
        row = await store.session(str(key))
        ident = _ident(home, key.agent, transcript)
        record = Record.fresh(key, now, ident)
        if row is not None:
            record = rollover(Record.decode(row.data), key, now, ident, asked=True)
        provider, model = transcript.model() or (None, None)
        record = msgspec.structs.replace(record, modelProvider=provider, model=model)
        await asyncio.to_thread(files.place, home, record.path(key.agent), _content(transcript, ident, now))
        await store.save_session(record.row(key))
        return record


def _ident(home: str, agent: str, transcript: Transcript) -> str:
    """The file's own session id if it can be used and is free here, else a new one."""
    own = transcript.header.id if transcript.header else ""
    try:
        taken = os.path.exists(os.path.join(home, Record(sessionId=safe(own)).path(agent)))
    except BadRequest:
        taken = True
    return str(uuid.uuid4()) if taken else own


def _content(transcript: Transcript, ident: str, now: int) -> bytes:
    """The file as it is with its last line ended; a header that is missing or has another id is replaced."""
    with open(transcript.path, "rb") as handle:
        lines = handle.read().split(b"\n")
    header = transcript.header or Header(version=VERSION, timestamp=iso(now), cwd=os.getcwd())
    own = next((i for i, line in enumerate(lines) if _is_header(line)), None)
    while not lines[-1].strip():
        lines.pop()
    if own is None or header.id != ident:
        rest = lines if own is None else lines[:own] + lines[own + 1 :]
        lines = [encode(msgspec.structs.replace(header, id=ident)), *rest]
    return b"\n".join([*lines, b""])


def _is_header(line: bytes) -> bool:
    try:
        return isinstance(DECODER.decode(line.removeprefix(b"\xef\xbb\xbf")), Header)
    except (ValueError, RecursionError):
        return False
