"""What the session commands share: the session one means, the store held for a change, what could not be read."""

from __future__ import annotations

import os
import sys

import msgspec

from palinurus.cli.args import read_session_key
from palinurus.cli.render import strip_controls
from palinurus.core.types.keys import SessionKey
from palinurus.errors import NotFound
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript
from palinurus.store.factory import open_reader


class SessionOnDisk(msgspec.Struct, frozen=True):
    """A session that exists. `path` is relative to home, `file` absolute."""

    key: SessionKey
    record: SessionRecord
    path: str
    file: str


def find_session(home: str, text: str) -> SessionOnDisk:
    """The session that is meant. Raises NotFound, BadRequest, StateBroken."""
    key = read_session_key(text)
    with open_reader(home) as reader:
        row = reader.session(str(key))
    if row is None:
        raise NotFound(f"no session {key}", fix="`pal sessions` lists them")
    record = SessionRecord.decode(row.data)
    path = record.path(key.agent)
    return SessionOnDisk(key, record, path, os.path.join(home, path))


def warn_unreadable(transcript: Transcript) -> None:
    """Say on standard error what of the file could not be read."""
    if transcript.bad:
        first = transcript.bad[0]
        count = len(transcript.bad)
        print(
            f"note: {count} piece{'s' if count > 1 else ''} of the file could not be read"
            f" (the first at byte {first.offset}: {strip_controls(first.reason)})",
            file=sys.stderr,
        )
